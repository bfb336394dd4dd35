import { Option } from "commander";
import { stringify } from "yaml";
import { CliError, exitCode } from "./cli-error.ts";

const formats = ["table", "wide", "json", "yaml"] as const;

/** `wide`: a table with more columns, whose cells are never cut. */
export type OutputFormat = (typeof formats)[number];

export const outputOption = (): Option =>
  new Option("-o, --output <format>", "format of records; --json is json").choices(formats);

/** Format by the two flags. Throws CliError if they differ. */
export function chosenFormat(output: OutputFormat | undefined, json: boolean): OutputFormat {
  if (json && output !== undefined && output !== "json")
    throw new CliError(`--json cannot be combined with --output ${output}.`, exitCode.wrongUsage);
  return output ?? (json ? "json" : "table");
}

/** Text of a whole record, with a newline. */
export const recordText = (value: unknown, format: "json" | "yaml"): string =>
  format === "yaml" ? stringify(value, { lineWidth: 0 }) : `${JSON.stringify(value, undefined, 2)}\n`;

/**
 * True if records are printed as JSON or YAML, so that errors and progress are JSON lines. Read from the arguments, because an error
 * can occur before they are parsed.
 */
export function hasStructuredOutput(args: readonly string[]): boolean {
  const end = args.indexOf("--");
  const own = end < 0 ? args : args.slice(0, end);
  return own.some((arg, n) => {
    if (arg === "--json" || /^(--output=|-o)(json|yaml)$/.test(arg)) return true;
    return (arg === "--output" || arg === "-o") && /^(json|yaml)$/.test(own[n + 1] ?? "");
  });
}
