import { constraintProblem } from "../../../proto/constraint-size.ts";
import { formatTooLarge } from "../errors/errors.ts";

/**
 * Checks the schemas and patterns of a request before an engine of any kind reads them. `formatParam`: field that holds the format, if
 * another than `response_format`. Throws formatTooLarge.
 */
export function checkFormat(body: Readonly<Record<string, unknown>>, formatParam = "response_format"): void {
  const problem = constraintProblem(body);
  if (problem) throw formatTooLarge(problem.param === "response_format" ? { ...problem, param: formatParam } : problem);
}
