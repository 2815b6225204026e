// Code generated from manifest.json by assay plugin build. DO NOT EDIT.

/** The signals that the manifest declares. */
export namespace Signal {
  // The name has the code of a country other than the suffix's, and a number of four digits or more.
  export const CountryNumber: string = "two-countries:country:number";
  // A domain with such a name was registered less than 90 days ago.
  export const CountryNew: string = "two-countries:country:new";
}
