/** Gives the section of a version its date. Throws where the changelog has no unreleased section of it. */
export function releaseSection(text: string, version: string, date: string): string {
  const heading = `## ${version} (unreleased)`;
  if (!text.includes(`\n${heading}\n`)) throw new Error(`The changelog has no section "${heading}".`);
  return text.replace(`\n${heading}\n`, `\n## ${version} (${date})\n`);
}

/** Adds the section of the next version above the newest one. */
export function openSection(text: string, version: string): string {
  const first = text.search(/^## /m);
  if (first < 0) throw new Error("The changelog has no sections.");
  return `${text.slice(0, first)}## ${version} (unreleased)\n\n${text.slice(first)}`;
}

/** Text of the section of a version, without its heading. Throws where there is none. */
export function sectionOf(text: string, version: string): string {
  const found = text.split(/^(?=## )/m).find((section) => section.startsWith(`## ${version} `));
  if (found === undefined) throw new Error(`The changelog has no section of ${version}.`);
  return found.slice(found.indexOf("\n") + 1).trim();
}
