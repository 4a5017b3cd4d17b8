/* Messages to the server: each is answered by one. */

export function connect({ onLost }) {
  const address = new URL("socket", location.href);
  address.protocol = "ws:";
  const socket = new WebSocket(address);
  const waiting = new Map();
  let last = 0;
  const opened = new Promise((resolve) => socket.addEventListener("open", resolve, { once: true }));
  socket.onmessage = (event) => {
    const answer = JSON.parse(event.data);
    waiting.get(answer.id)?.(answer);
    waiting.delete(answer.id);
  };
  socket.onclose = onLost;

  /** The answer to a message; its kind may be "error" or "stale". */
  return async function ask(kind, fields = {}) {
    await opened;
    const id = ++last;
    socket.send(JSON.stringify({ ...fields, id, kind }));
    return new Promise((resolve) => waiting.set(id, resolve));
  };
}
