// Code generated from manifest.json by assay plugin build. DO NOT EDIT.

/** The signals that the manifest declares. */
export namespace Signal {
  // A part of the name is the code of another country than the suffix.
  export const CountryOther: string = "two-countries:country:other";
  // The name also contains a number of four digits or more.
  export const CountryNumber: string = "two-countries:country:number";
  // The domain was also registered less than 90 days ago.
  export const CountryNew: string = "two-countries:country:new";
}
