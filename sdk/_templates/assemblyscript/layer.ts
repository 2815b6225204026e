// The layer my-layer: domains with long numbers in their names, and new ones.
import { Level, Outcome, Threat, log, quote, signal, threat } from "./assay";
import { domainRegistrable, rdapAgeDays } from "./assay_facts";
import { Signal } from "./signals";

const minDigits = 4; // in a row
const digitsPoints = 20;
const newDays = 30;
const newPoints = 30;

/** Scores a domain by the longest number in its name and by its age. */
export function assay_v1_score(): i32 {
  const name = domainRegistrable();
  if (name === null) return Outcome.Abstained; // absent means "not known", and must never add risk
  const digits = longestNumber(name);
  log(Level.Debug, "longest number: " + digits.length.toString() + " digits");
  if (digits.length >= minDigits) {
    signal(digitsPoints, Signal.NameDigits, "Contains the number " + quote(digits));
  }
  const age = rdapAgeDays();
  if (age < 0 || age >= newDays) return Outcome.Scored;
  signal(newPoints, Signal.AgeNew, registered(age));
  if (digits.length >= minDigits) threat(Threat.Scam);
  return Outcome.Scored;
}

function registered(days: i32): string {
  if (days == 0) return "Registered today";
  return "Registered " + days.toString() + (days == 1 ? " day ago" : " days ago");
}

/** The longest run of digits in a name, the first one if several are as long. */
function longestNumber(name: string): string {
  let begin = 0;
  let longest = 0;
  let length = 0;
  for (let i = 0; i < name.length; i++) {
    const c = name.charCodeAt(i);
    if (c < 0x30 || c > 0x39) {
      begin = i + 1;
    } else if (i + 1 - begin > length) {
      longest = begin;
      length = i + 1 - begin;
    }
  }
  return name.substring(longest, longest + length);
}
