import { constraintProblem } from "../../../proto/constraint-size.ts";
import { formatTooLarge } from "../errors/errors.ts";

/** Checks the schemas and patterns of a request before an engine of any kind reads them. Throws formatTooLarge. */
export function checkFormat(body: Readonly<Record<string, unknown>>): void {
  const problem = constraintProblem(body);
  if (problem) throw formatTooLarge(problem);
}
