"""Checks the IBAN of a payment, and holds the payment unless the verdict is allow.

    pip install assay_client-*-py3-none-any.whl
    ASSAY_URL=http://127.0.0.1:8080 ASSAY_KEY=assay_... python3 payment.py PAYMENT IBAN
"""

import os
import sys

from assay import AssayError, Client

if len(sys.argv) != 3:
    sys.exit("usage: payment.py PAYMENT IBAN")
payment, iban = sys.argv[1:]
try:
    # Sent again after a restart of this program, the check is still counted once.
    result = Client(os.environ["ASSAY_URL"], os.environ["ASSAY_KEY"]).check({"iban": iban}, idempotency_key=payment)
except AssayError as error:
    if error.code == "invalid_field":
        sys.exit(f"not an IBAN: {error.message}")
    sys.exit(f"hold: {error}")
except OSError as error:  # no answer in time
    sys.exit(f"hold: {error}")
print("pay" if result.verdict == "allow" else f"hold: {result.verdict}, {result.ref}")
