# -*- coding: latin-1 -*-
"""Rechnungen für Kunden in der Schweiz und in Österreich. Beträge in Rappen oder Cent."""

from dataclasses import dataclass

RABATT_AB = 10
RABATT = 5
GRUSS = "Mit freundlichen Grüßen\nMüller & Söhne"
ZEICHEN = {"CHF": "Fr.", "EUR": "EUR"}


@dataclass(frozen=True)
class Position:
    """Eine Zeile der Rechnung."""

    text: str
    menge: int
    preis: int

    def summe(self) -> int:
        """Ab zehn Stück gibt es fünf Prozent Rabatt."""
        voll = self.menge * self.preis
        if self.menge >= RABATT_AB:
            return round(voll * (100 + RABATT) / 100)
        return voll


def netto(positionen: list[Position]) -> int:
    """Alle Zeilen zusammen."""
    return sum(position.summe() for position in positionen)


def steuer(betrag: int, satz: float) -> int:
    """Der Satz ist in Prozent."""
    return round(betrag * satz / 100)


def betrag(cent: int, währung: str = "EUR") -> str:
    """1234567 wird zu EUR 12'345.67."""
    ganze, rest = divmod(cent, 100)
    return f"{ZEICHEN[währung]} {ganze:,}.{rest:02}".replace(",", "'")


def rechnung(kunde: str, positionen: list[Position], satz: float, währung: str = "EUR") -> str:
    """Der ganze Brief."""
    summe = netto(positionen)
    zeilen = [f"Rechnung für {kunde}", ""]
    zeilen += [f"{p.menge} × {p.text}: {betrag(p.summe(), währung)}" for p in positionen]
    zeilen += ["", f"Netto: {betrag(summe, währung)}", f"Steuer: {betrag(steuer(summe, satz), währung)}"]
    zeilen += [f"Zu zahlen: {betrag(summe + steuer(summe, satz), währung)}", "", GRUSS]
    return "\n".join(zeilen)
