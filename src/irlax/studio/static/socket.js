/* Messages to the server: each is answered by one; after the server has ended, by an error. */

const ENDED = "The server of the studio has ended. What is drawn is still here: Save, “Download the scene” keeps it. "
  + "Start the studio again, and open the address that it prints.";
const REFUSED = "The studio does not answer: it has ended, or too many of its pages are open. Close some and load this one again, "
  + "or start the studio again and open the address that it prints.";

export function connect({ onLost }) {
  const address = new URL("socket", location.href);
  address.protocol = "ws:";
  const socket = new WebSocket(address);
  const [waiting, previews] = [new Map(), new Map()];
  let last = 0;
  let lost = "";
  let isOpen = false;
  const opened = new Promise((resolve) => {
    socket.addEventListener("open", () => resolve((isOpen = true)), { once: true });
    socket.addEventListener("close", resolve, { once: true });
  });
  socket.onmessage = (event) => {
    const answer = JSON.parse(event.data);
    if (answer.kind === "preview") return previews.get(answer.id)?.(answer);
    waiting.get(answer.id)?.(answer);
    previews.delete(answer.id);
    waiting.delete(answer.id);
  };
  socket.onclose = () => {
    lost = isOpen ? ENDED : REFUSED;
    waiting.forEach((resolve, id) => resolve({ id, kind: "error", message: lost }));
    waiting.clear();
    onLost(lost);
  };

  /** The answer to a message; its kind may be "error" or "stale". `onPreview` is called with what comes before it. */
  return async function ask(kind, fields = {}, onPreview = null) {
    await opened;
    const id = ++last;
    if (lost) return { id, kind: "error", message: lost };
    if (onPreview) previews.set(id, onPreview);
    socket.send(JSON.stringify({ ...fields, id, kind }));
    return new Promise((resolve) => waiting.set(id, resolve));
  };
}
