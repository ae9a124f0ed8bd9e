"""What there is in a generated household: receptacles, objects, and what can be done with them.

What a kind of receptacle accepts and what can be cleaned, heated, cooled or sliced is as in the official games. Kinds
are spelled as in the THOR simulator; the texts of a game have them in lower case.
"""

from __future__ import annotations

from typing import Final

__all__ = ["ACCEPTS", "OBJECTS", "RECEPTACLES", "SCENES", "base_of"]

# For each scene: kind of receptacle -> the most of it that a household of that scene has.
SCENES: Final[dict[str, dict[str, int]]] = {
    "kitchen": {
        "Cabinet": 20,
        "CoffeeMachine": 1,
        "CounterTop": 3,
        "DiningTable": 2,
        "Drawer": 10,
        "Fridge": 1,
        "GarbageCan": 1,
        "Microwave": 1,
        "Shelf": 3,
        "SinkBasin": 1,
        "StoveBurner": 4,
        "Toaster": 1,
    },
    "livingroom": {
        "ArmChair": 2,
        "CoffeeTable": 2,
        "DiningTable": 1,
        "Drawer": 8,
        "Dresser": 1,
        "GarbageCan": 1,
        "Ottoman": 1,
        "Shelf": 6,
        "SideTable": 3,
        "Sofa": 1,
        "TVStand": 1,
    },
    "bedroom": {
        "Bed": 2,
        "Desk": 2,
        "Drawer": 12,
        "Dresser": 1,
        "GarbageCan": 1,
        "LaundryHamper": 1,
        "Safe": 1,
        "Shelf": 6,
        "SideTable": 2,
    },
    "bathroom": {
        "BathtubBasin": 1,
        "Cabinet": 8,
        "Cart": 1,
        "CounterTop": 1,
        "Drawer": 4,
        "GarbageCan": 1,
        "HandTowelHolder": 2,
        "Shelf": 2,
        "SinkBasin": 2,
        "Toilet": 1,
        "ToiletPaperHanger": 1,
        "TowelHolder": 1,
    },
}

SCENE_OBJECTS: Final[dict[str, tuple[str, ...]]] = {
    "kitchen": tuple(
        "Apple Bowl Bread ButterKnife Cup DishSponge Egg Fork Kettle Knife Ladle Lettuce Mug Pan PepperShaker Plate "
        "Pot Potato SaltShaker SoapBottle Spatula Spoon Tomato WineBottle".split()
    ),
    "livingroom": tuple(
        "Book Box CellPhone CreditCard KeyChain Laptop Newspaper Pencil Pillow Plate RemoteControl Statue TissueBox "
        "Vase Watch WateringCan".split()
    ),
    "bedroom": tuple(
        "AlarmClock BasketBall Book Bowl CD CellPhone Cloth CreditCard KeyChain Laptop Mug Pen Pencil Pillow "
        "TennisRacket Vase Watch".split()
    ),
    "bathroom": tuple(
        "Candle Cloth DishSponge HandTowel SoapBar SoapBottle SprayBottle TissueBox ToiletPaper Towel".split()
    ),
}

LAMPS: Final = {"bedroom": "DeskLamp", "livingroom": "FloorLamp"}
LAMP_SITES: Final = {
    "DeskLamp": ("Desk", "Dresser", "SideTable"),
    "FloorLamp": ("CoffeeTable", "Dresser", "SideTable", "TVStand"),
}

_ACCEPTS: Final = {
    "ArmChair": "Book Box CellPhone Cloth CreditCard KeyChain Laptop Newspaper Pillow RemoteControl",
    "BathtubBasin": "Cloth DishSponge HandTowel SoapBar",
    "Bed": "BasketBall Book CellPhone Laptop Pillow TennisRacket",
    "Cabinet": (
        "Book Bowl Box Candle CD Cloth Cup DishSponge HandTowel Kettle Ladle Mug Newspaper Pan PepperShaker Plate "
        "Pot SaltShaker SoapBar SoapBottle SprayBottle TissueBox ToiletPaper Vase WateringCan WineBottle"
    ),
    "Cart": "Candle Cloth DishSponge HandTowel SoapBar SoapBottle SprayBottle TissueBox ToiletPaper",
    "CoffeeMachine": "Mug",
    "CoffeeTable": (
        "Book Bowl Box Candle CellPhone CreditCard KeyChain Laptop Newspaper Pen Pencil Plate RemoteControl Statue "
        "TissueBox Vase Watch WateringCan"
    ),
    "CounterTop": (
        "AlarmClock Apple Book Bowl Bread ButterKnife Candle CD CellPhone Cloth CreditCard Cup DishSponge Egg Fork "
        "HandTowel Kettle KeyChain Knife Ladle Laptop Lettuce Mug Pan Pen Pencil PepperShaker Plate Pot Potato "
        "RemoteControl SaltShaker SoapBar SoapBottle Spatula Spoon SprayBottle Statue TissueBox ToiletPaper Tomato "
        "Vase WineBottle"
    ),
    "Desk": (
        "AlarmClock BasketBall Book Bowl Box CD CellPhone Cloth CreditCard KeyChain Laptop Mug Pen Pencil "
        "RemoteControl Statue TennisRacket TissueBox Vase Watch WateringCan"
    ),
    "DiningTable": (
        "AlarmClock Apple BasketBall Book Bowl Box Bread ButterKnife Candle CD CellPhone Cloth CreditCard Cup "
        "DishSponge Egg Fork Kettle KeyChain Knife Ladle Laptop Lettuce Mug Newspaper Pan Pen Pencil PepperShaker "
        "Plate Pot Potato RemoteControl SaltShaker SoapBottle Spatula Spoon SprayBottle Statue TennisRacket "
        "TissueBox Tomato Vase Watch WateringCan WineBottle"
    ),
    "Drawer": (
        "Book ButterKnife Candle CD CellPhone Cloth CreditCard DishSponge Fork HandTowel KeyChain Knife Ladle "
        "Newspaper Pen Pencil PepperShaker RemoteControl SaltShaker SoapBar SoapBottle Spatula Spoon SprayBottle "
        "TissueBox ToiletPaper Watch WateringCan"
    ),
    "Dresser": (
        "AlarmClock BasketBall Book Bowl Box Candle CD CellPhone Cloth CreditCard KeyChain Laptop Mug Newspaper Pen "
        "Pencil Plate RemoteControl SprayBottle Statue TennisRacket TissueBox ToiletPaper Vase Watch WateringCan"
    ),
    "Fridge": "Apple Bowl Bread Cup Egg Lettuce Mug Pan Plate Pot Potato Tomato WineBottle",
    "GarbageCan": (
        "Apple Bread CD Cloth DishSponge Egg HandTowel Lettuce Newspaper Pen Pencil Potato SoapBar SoapBottle "
        "SprayBottle TissueBox ToiletPaper Tomato WineBottle"
    ),
    "HandTowelHolder": "HandTowel",
    "LaundryHamper": "Cloth",
    "Microwave": "Apple Bowl Bread Cup Egg Mug Plate Potato Tomato",
    "Ottoman": "Book Box CellPhone CreditCard KeyChain Laptop Newspaper Pillow RemoteControl",
    "Safe": "CD CellPhone CreditCard KeyChain Statue Vase",
    "Shelf": (
        "AlarmClock Book Bowl Box Candle CD CellPhone Cloth CreditCard Cup DishSponge HandTowel Kettle KeyChain Mug "
        "Newspaper Pen Pencil PepperShaker Plate Pot RemoteControl SaltShaker SoapBar SoapBottle SprayBottle Statue "
        "TissueBox ToiletPaper Vase Watch WateringCan WineBottle"
    ),
    "SideTable": (
        "AlarmClock Apple BasketBall Book Bowl Box Bread ButterKnife Candle CD CellPhone Cloth CreditCard Cup "
        "DishSponge Egg Fork HandTowel Kettle KeyChain Knife Laptop Lettuce Mug Newspaper Pan Pen Pencil "
        "PepperShaker Plate Pot Potato RemoteControl SaltShaker SoapBar SoapBottle Spatula Spoon SprayBottle Statue "
        "TennisRacket TissueBox ToiletPaper Tomato Vase Watch WateringCan WineBottle"
    ),
    "SinkBasin": (
        "Apple Bowl ButterKnife Cloth Cup DishSponge Egg Fork HandTowel Kettle Knife Ladle Lettuce Mug Pan Plate "
        "Pot Potato SoapBar Spatula Spoon Tomato"
    ),
    "Sofa": "Book Box CellPhone CreditCard KeyChain Laptop Newspaper Pillow RemoteControl",
    "StoveBurner": "Kettle Pan Pot",
    "Toaster": "",
    "Toilet": "Candle Cloth DishSponge HandTowel SoapBar SoapBottle SprayBottle TissueBox ToiletPaper",
    "ToiletPaperHanger": "ToiletPaper",
    "TowelHolder": "Towel",
    "TVStand": "TissueBox",
}
ACCEPTS: Final = {receptacle: frozenset(objects.split()) for receptacle, objects in _ACCEPTS.items()}
"""For each kind of receptacle the kinds of objects that it accepts."""

OPENABLE: Final = frozenset({"Cabinet", "Drawer", "Fridge", "Microwave", "Safe"})
CLEANABLE: Final = frozenset(
    "Apple Bowl ButterKnife Cloth Cup DishSponge Egg Fork Kettle Knife Ladle Lettuce Mug Pan Plate Pot Potato SoapBar "
    "Spatula Spoon Tomato".split()
)
HEATABLE: Final = frozenset("Apple Bread Cup Egg Mug Plate Potato Tomato".split())
COOLABLE: Final = frozenset("Apple Bowl Bread Cup Egg Lettuce Mug Pan Plate Pot Potato Tomato WineBottle".split())
SLICEABLE: Final = frozenset("Apple Bread Egg Lettuce Potato Tomato".split())
VESSELS: Final = frozenset("Bowl Box Cup Mug Pan Plate Pot".split())
KNIVES: Final = frozenset({"Knife", "ButterKnife"})

OBJECTS: Final = tuple(sorted({thing for things in SCENE_OBJECTS.values() for thing in things} | set(LAMPS.values())))
"""Every kind of object."""

RECEPTACLES: Final = tuple(sorted(ACCEPTS))
"""Every kind of receptacle."""


def base_of(kind: str) -> str:
    """Return what the id of a thing begins with: THOR puts the kind of a basin at the end of its id."""
    return kind.removesuffix("Basin")
