// Schemathesis, a tester of HTTP interfaces of other people's making: it reads the description that a server gives of itself,
// makes requests that fit it and some that do not, and judges the answers.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { runPython } from "../../fakes/python.ts";

export interface Verdict {
  readonly code: number | null;
  readonly operations: number;
  readonly cases: number;
  readonly errors: readonly unknown[];
  /** What it printed: each failure with the request that shows it. */
  readonly told: string;
}

/** No answer is a fault of the server (5xx that is not planned for), and none has a status that the description does not name. */
export const checks = ["not_a_server_error", "status_code_conformance"];

/** The end of the account that asks, and an answer that waits a minute for somebody to sign in. */
const leftOut = ["/v1/me", "/github/cli/login"];

/** The same requests in every run: a defect that a change brings must not come and go. */
export async function askEverything(options: {
  readonly url: string;
  readonly key: string;
  readonly folder: string;
  readonly phases: string;
  readonly examples: number;
  readonly limitMs: number;
  /** A pattern of paths; default: all that may be asked. */
  readonly only?: string;
}): Promise<Verdict> {
  const report = join(options.folder, "schemathesis.json");
  const args = [
    ...["-m", "schemathesis.cli", "run", `${options.url}/openapi.json`],
    ...["--header", `Authorization: Bearer ${options.key}`, "--checks", checks.join(",")],
    ...["--phases", options.phases, "--max-examples", String(options.examples), "--seed", "1", "--no-shrink"],
    ...["--continue-on-failure", "--generation-database", "none", "--suppress-health-check", "all"],
    ...["--request-timeout", "60", "--warnings", "off", "--report", "json", "--report-json-path", report],
    ...leftOut.flatMap((path) => ["--exclude-path", path]),
    ...(options.only === undefined ? [] : ["--include-path-regex", options.only]),
  ];
  const ran = await runPython(args, { limitMs: options.limitMs, cwd: options.folder });
  const told = `${ran.stdout}\n${ran.stderr}`;
  const { operations, test_cases, errors } = (() => {
    try {
      return JSON.parse(readFileSync(report, "utf8"));
    } catch {
      return { operations: { tested: 0 }, test_cases: { generated: 0 }, errors: ["there is no report"] };
    }
  })();
  return { code: ran.code, operations: operations.tested, cases: test_cases.generated, errors, told };
}
