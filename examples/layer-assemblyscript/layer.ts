// The layer two-countries: domains that name a country other than their suffix's, with a long number.
import { Outcome, Threat, quote, signal, threat } from "./assay";
import { domainName, domainSubdomain, domainSuffixKind, domainTLD, rdapAgeDays } from "./assay_facts";
import { Signal } from "./signals";

const points = 30;
const newPoints = 20;
const newDays = 90;
const minDigits = 4;

// Country codes that are not common words or abbreviations in names, unlike "de", "it", "my" and "us".
const countries: string[] = [
  "au", "br", "ca", "ch", "cl", "cn", "cz", "dk", "es", "fi", "fr", "gb", "gr", "hk", "hu", "ie", "jp", "kr", "mx",
  "nl", "nz", "pl", "pt", "ro", "ru", "sg", "sk", "tr", "tw", "ua", "uk", "usa", "za",
];

/** Scores a domain by the parts of its labels, which hyphens separate. */
export function assay_v1_score(): i32 {
  const name = domainName();
  if (name === null) return Outcome.Abstained; // a public suffix
  if (domainSuffixKind() == "private") return Outcome.Scored; // a customer's name at a hosting company
  const suffix = domainTLD();
  const subdomain = domainSubdomain();
  const labels = subdomain === null ? name : subdomain + "." + name;
  const parts = labels.replaceAll(".", "-").split("-");
  if (parts.length < 2) return Outcome.Scored; // nothing but the code, such as uk.com
  const country = find(parts, suffix === null ? "" : suffix);
  const number = longNumber(parts);
  if (country.length == 0 || number.length == 0) return Outcome.Scored;
  const what = "Names the country “" + country + "” under another suffix, with the number " + quote(number);
  signal(points, Signal.CountryNumber, what);
  threat(Threat.Phishing);
  const days = rdapAgeDays();
  if (days >= 0 && days < newDays) {
    signal(newPoints, Signal.CountryNew, "Registered " + days.toString() + (days == 1 ? " day ago" : " days ago"));
  }
  return Outcome.Scored;
}

/** The first part that is the code of a country other than the suffix, or "". */
function find(parts: string[], suffix: string): string {
  for (let i = 0; i < parts.length; i++) {
    if (parts[i] != suffix && countries.includes(parts[i])) return parts[i];
  }
  return "";
}

/** The first part that begins with four digits or more, or "". */
function longNumber(parts: string[]): string {
  for (let i = 0; i < parts.length; i++) {
    let digits = 0;
    while (digits < parts[i].length && parts[i].charCodeAt(digits) >= 0x30 && parts[i].charCodeAt(digits) <= 0x39) {
      digits++;
    }
    if (digits >= minDigits) return parts[i].substring(0, digits);
  }
  return "";
}
