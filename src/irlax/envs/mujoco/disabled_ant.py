"""The Ant with two legs disabled and shrunk, to which rewards that were learned on the whole Ant are transferred."""

import os
from pathlib import Path
from xml.etree import ElementTree

#: The bodies of two neighbouring legs, and their joints. To disable the two others would be the mirror image.
_LEGS = ("back_leg", "right_back_leg")
_JOINTS = ("hip_3", "ankle_3", "hip_4", "ankle_4")
_SHRINK = 0.5
_GEAR = "1"


def disabled_ant(path: str | os.PathLike[str]) -> str:
    """Write the model of the disabled Ant to a file, and return its absolute path.

    Gymnasium's ant.xml with two neighbouring legs whose thighs and shins are half as long and whose motors have 1/150
    of the strength. Fu, Luo and Levine (2018), section 7.2, with the numbers of their published code.
    "mjx:ant-disabled" is this model; on the host it is
    `make("gymnasium:Ant-v5", xml_file=disabled_ant("disabled_ant.xml"))`.
    """
    Path(path).write_text(disabled_ant_xml())
    return str(Path(path).resolve())


def disabled_ant_xml() -> str:
    """The model as text."""
    root = ElementTree.parse(gymnasium_model("ant.xml")).getroot()
    for leg in _LEGS:
        thigh = root.find(f".//body[@name='{leg}']/body")
        shin = None if thigh is None else thigh.find("body")
        assert thigh is not None and shin is not None
        for body in (thigh, shin):
            for geom in body.findall("geom"):
                _shrink(geom, "fromto")
        _shrink(shin, "pos")
    for motor in root.iter("motor"):
        if motor.get("joint") in _JOINTS:
            motor.set("gear", _GEAR)
    return ElementTree.tostring(root, encoding="unicode")


def gymnasium_model(name: str) -> Path:
    """The file of a model that Gymnasium ships."""
    import gymnasium

    return Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets" / name


def _shrink(element: ElementTree.Element, attribute: str) -> None:
    numbers = (_SHRINK * float(number) for number in element.attrib[attribute].split())
    element.set(attribute, " ".join(map(str, numbers)))
