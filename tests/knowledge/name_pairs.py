"""Pairs of names of which somebody has said whether they mean the same, many of them chosen to mislead.

The first of each list were written down before there was any code that suggests merges, the others after it, before it was
tried on them; nothing was changed for their sake, but for two rules that came with three of them. A name may carry its type
behind a bar.
"""

from __future__ import annotations

from typing import Final

__all__ = ["DIFFERENT", "SAME"]

_SAME: Final = """
José García = Jose Garcia
Søren Kierkegaard = Soren Kierkegaard
Łódź = Lodz
Renée O'Connor = Renee OConnor
ALDI Süd = Aldi Sud
Αθήνα = Αθηνα
Coca-Cola = Coca Cola
AT&T = AT & T
St. Gallen = St Gallen
GitHub = Git Hub
e-mail = email
U.S. = US
J. Smith|person = John Smith|person
J. Smith = John Smith
John S. = John Smith
John Q. Smith|person = John Smith|person
J. R. R. Tolkien = J.R.R. Tolkien
J.R.R. Tolkien = John Ronald Reuel Tolkien
E. coli = Escherichia coli
S. Dakota|state = South Dakota|state
Google = Google Inc.
Google|company = Google, Inc.|organization
Bosch = Bosch GmbH
Nestlé S.A. = Nestle
Acme Corp = Acme Corporation
Ford Motor Co. = Ford Motor Company
腾讯 = 腾讯有限公司
トヨタ自動車 = トヨタ自動車株式会社
삼성전자 = 삼성전자 주식회사
Peter O’Toole = Peter OToole
Dvořák = Dvorak
Barack H. Obama|person = Barack Obama|person
G. W. Bush = George W. Bush
Ben K.|person = Ben Kingsley|person
Bayer|company = Bayer AG|organization
Telefónica = Telefonica S.A.
Barilla = Barilla S.p.A.
Kestrel Robotics Ltd = Kestrel Robotics Limited
Tiffany & Co = Tiffany and Co
约翰·史密斯 = 约翰史密斯
山田 太郎 = 山田太郎
St John's = St. Johns
"""
_DIFFERENT: Final = """
John Smith = John Smyth
John Smith = John Smith Jr.
John Smith|person = Jones Smith|company
J. Smith|person = Jones Smith|company
J. Smith = John Doe
H. Clinton = Bill Clinton
Mr. Smith = Mrs. Smith
Anna = Ana
Jesica = Jessica
Henry IV = Henry V
C++ = C#
GPT-4 = GPT-4o
iPhone 15 = iPhone 16
A-1 = A1
10.0.0.1 = 10.0.01
INC-1042 = INC-104-2
123e4567-e89b-12d3-a456-426614174000 = 123e4567-e89b-12d3-a456-426614174001
abcdef-ab = abcde-fab
かき = がき
パリ = バリ
Андреи = Андрей
王伟 = 王维
nowhere = now here
resign = re-sign
Peña|person = Pena|feeling
A Street|street = Adams Street|street
Plan B = Plan C
blood group = blood group AB
Java = JavaScript
Springfield = Springfield Elementary
Siemens = Siemens Energy AG
Apple|fruit = Apple Inc.|company
李明|person = 李明有限公司|公司
Acme Inc. = Acme GmbH
贸易 = 贸易公司
北京 = 北京大学
año = ano
résumé = resume
Ann Lee = Anna Lee
M. Curie = Irène Curie
J. Bach = Bach
Big O = Big Omega
T. Rex|band = Tyrannosaurus Rex|dinosaur
Section A = Section B
Vitamin D = Vitamin Deficiency
Python = Pythons
Chris = Christine
Oslo = Osler
Kim Jong-un = Kim Jong-il
Delta|river = Delta Inc.|company
Acme LLC = Acme PLC
Bosch GmbH = Bosch Rexroth AG
Toyota = Toyota Industries Corporation
Red Cross = RedCross Inc Gmbh
小米 = 小米粥
中国移动 = 中国联通
李 娜 = 李纳
田中 = 中田
Київ = Киів
Node.js = Nodejs 2
R2-D2 = R2D2
A/B = AB
user@example.com = userexample.com
+1 555 0100 = 15550100
Q&A 1 = QA 1
Ms. Lee = Miss Lee
Mr. Lee = M. Lee
hot dog = hotdog
sin = sín
"""


def _pairs(lines: str) -> list[tuple[str, str]]:
    return [(one, other) for one, _, other in (line.partition(" = ") for line in lines.strip().splitlines())]


SAME: Final = _pairs(_SAME)
DIFFERENT: Final = _pairs(_DIFFERENT)
