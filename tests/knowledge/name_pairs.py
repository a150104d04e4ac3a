"""Pairs of names of which somebody has said whether they mean the same, many of them chosen to mislead.

They were written down before there was any code that suggests merges. A name may carry its type behind a bar.
"""

from __future__ import annotations

from typing import Final

__all__ = ["DIFFERENT", "SAME"]

_SAME: Final = """
José García = Jose Garcia
Zoë Kravitz = Zoe Kravitz
Søren Kierkegaard = Soren Kierkegaard
Łukasz Nowak = Lukasz Nowak
Łódź = Lodz
Müller = Muller
Beyoncé = Beyonce
Björn Borg = Bjorn Borg
Renée O'Connor = Renee OConnor
O'Brien = OBrien
McDonald's = McDonalds
ALDI Süd = Aldi Sud
Αθήνα = Αθηνα
Jean-Pierre = Jean Pierre
Coca-Cola = Coca Cola
AT&T = AT & T
St. Gallen = St Gallen
NewYork = New York
SpaceX = Space X
JPMorgan = JP Morgan
GitHub = Git Hub
e-mail = email
U.S. = US
J. Smith|person = John Smith|person
J Smith|person = John Smith|person
J. Smith = John Smith
John S. = John Smith
John Q. Smith|person = John Smith|person
J. R. R. Tolkien = J.R.R. Tolkien
J.R.R. Tolkien = John Ronald Reuel Tolkien
E. coli = Escherichia coli
S. Dakota|state = South Dakota|state
Google = Google Inc.
Google|company = Google, Inc.|organization
Tesla|company = Tesla, Inc.|company
Siemens = Siemens AG
Bosch = Bosch GmbH
Nestlé S.A. = Nestle
Acme = Acme Ltd
Acme Corp = Acme Corporation
Ford Motor Co. = Ford Motor Company
腾讯 = 腾讯有限公司
百度 = 百度股份有限公司
华为技术|公司 = 华为技术有限公司|公司
トヨタ自動車 = トヨタ自動車株式会社
삼성전자 = 삼성전자 주식회사
"""
_DIFFERENT: Final = """
John Smith = Jane Smith
John Smith = John Smyth
John Smith = John Smith Jr.
John Smith|person = Jones Smith|company
J. Smith|person = Jones Smith|company
J. Smith = John Doe
A. Jones = Alice Smith
H. Clinton = Bill Clinton
Mr. Smith = Mrs. Smith
Anna = Ana
Jesica = Jessica
Georgia = George
Henry IV = Henry V
C = C++
C++ = C#
F = F#
GPT-4 = GPT-4o
GPT-4 = GPT 41
iPhone 15 = iPhone 16
1.5 = 15
A-1 = A1
10.0.0.1 = 10.0.01
2024-01-02 = 20240102
INC-1042 = INC-104-2
Room 12 = Room 1-2
123e4567-e89b-12d3-a456-426614174000 = 123e4567-e89b-12d3-a456-426614174001
abcdef-ab = abcde-fab
かき = がき
パリ = バリ
Андреи = Андрей
王伟 = 王维
张伟 = 章伟
小红 = 小虹
nowhere = now here
Mayday = May Day
resign = re-sign
coop = co-op
Peña|person = Pena|feeling
A Street|street = Adams Street|street
M Street = Main Street
Plan B = Plan C
Vitamin B = Vitamin C
blood group = blood group AB
Java = JavaScript
Springfield = Springfield Elementary
Bank of America = Bank of Canada
Siemens = Siemens Energy AG
Ford|person = Ford Inc.|company
Apple|fruit = Apple Inc.|company
Jordan|country = Jordan Inc.|company
李明|person = 李明有限公司|公司
Acme Inc. = Acme GmbH
Acme Ltd = Acme Corp
insurance = insurance company
贸易 = 贸易公司
北京 = 北京大学
中国 = 中国银行
año = ano
résumé = resume
"""


def _pairs(lines: str) -> list[tuple[str, str]]:
    return [(one, other) for one, _, other in (line.partition(" = ") for line in lines.strip().splitlines())]


SAME: Final = _pairs(_SAME)
DIFFERENT: Final = _pairs(_DIFFERENT)
