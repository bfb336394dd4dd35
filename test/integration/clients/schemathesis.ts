// Schemathesis, a tester of HTTP interfaces of other people's making: it reads the description that a server gives of itself,
// makes requests that fit it and some that do not, and judges the answers. schemathesis_hooks.py gives it names that exist.
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { runPython } from "../../fakes/python.ts";

/** What was answered, by operation. */
export type Answered = Readonly<
  Record<
    string,
    {
      /** The first tag of the operation. */
      readonly group: string;
      readonly statuses: Readonly<Record<string, number>>;
      /** 503 without `Retry-After`. */
      readonly unexplained: number;
    }
  >
>;

export interface Verdict {
  readonly code: number | null;
  readonly operations: number;
  readonly cases: number;
  readonly errors: readonly unknown[];
  readonly answered: Answered;
  /** What it printed: each failure with the request that shows it. */
  readonly told: string;
}

/** No answer is a fault of the server (5xx that is not planned for), and none has a status that the description does not name. */
export const checks = ["not_a_server_error", "status_code_conformance"];

/** The end of the account that asks, and an answer that waits a minute for somebody to sign in. */
const leftOut = ["/v1/me", "/github/cli/login"];

/** Models are served by an agent: where it was away for a moment the interface plans for 503, which the hooks look at. */
const config = (examples: number, ofInference: number) => `
[generation]
max-examples = ${examples}

[[operations]]
include-tag = ["inference", "voices"]
generation = { max-examples = ${ofInference} }
checks = { not_a_server_error = { expected-statuses = ["2xx", "3xx", "4xx", "503"] } }
`;

/** The same requests in every run: a defect that a change brings must not come and go. */
export async function askEverything(options: {
  readonly url: string;
  readonly folder: string;
  readonly phases: string;
  /** Per operation, and of those that infer. */
  readonly examples: number;
  readonly examplesOfInference: number;
  readonly limitMs: number;
  /** Keys, and names that exist: see schemathesis_hooks.py. */
  readonly real: Readonly<Record<string, string>>;
  /** A pattern of paths; default: all that may be asked. */
  readonly only?: string;
}): Promise<Verdict> {
  const [report, tally, settings] = ["report.json", "tally.json", "schemathesis.toml"].map((name) =>
    join(options.folder, name),
  ) as [string, string, string];
  for (const file of [report, tally]) rmSync(file, { force: true });
  writeFileSync(settings, config(options.examples, options.examplesOfInference));
  const args = [
    ...["-m", "schemathesis.cli", "--config-file", settings, "run", `${options.url}/openapi.json`],
    ...["--checks", checks.join(","), "--phases", options.phases, "--seed", "1", "--no-shrink"],
    ...["--continue-on-failure", "--generation-database", "none", "--suppress-health-check", "all"],
    ...["--request-timeout", "60", "--warnings", "off", "--report", "json", "--report-json-path", report],
    ...leftOut.flatMap((path) => ["--exclude-path", path]),
    ...(options.only === undefined ? [] : ["--include-path-regex", options.only]),
  ];
  const ran = await runPython(args, {
    limitMs: options.limitMs,
    cwd: options.folder,
    env: { ...options.real, TALLY: tally, SCHEMATHESIS_HOOKS: join(import.meta.dirname, "schemathesis_hooks.py") },
  });
  const told = `${ran.stdout}\n${ran.stderr}`;
  const { operations, test_cases, errors } = read(report, {
    operations: { tested: 0 },
    test_cases: { generated: 0 },
    errors: ["there is no report"],
  });
  const answered = read<Answered>(tally, {});
  return { code: ran.code, operations: operations.tested, cases: test_cases.generated, errors, answered, told };
}

function read<Content>(path: string, otherwise: Content): Content {
  try {
    return JSON.parse(readFileSync(path, "utf8")) as Content;
  } catch {
    return otherwise;
  }
}

const served = (statuses: Readonly<Record<string, number>>): number =>
  Object.entries(statuses).reduce((sum, [status, count]) => sum + (status.startsWith("2") ? count : 0), 0);

/** `inference 61 of 140`: answered with 2xx, of all, by group. */
export function servedByGroup(answered: Answered): string {
  const groups = new Map<string, { served: number; all: number }>();
  for (const { group, statuses } of Object.values(answered)) {
    const sums = groups.get(group) ?? { served: 0, all: 0 };
    sums.served += served(statuses);
    sums.all += Object.values(statuses).reduce((sum, count) => sum + count, 0);
    groups.set(group, sums);
  }
  return [...groups].map(([group, sums]) => `${group} ${sums.served} of ${sums.all}`).join(", ");
}

/** Operations that ask a model and had no case served. */
export const neverServed = (answered: Answered): readonly string[] =>
  Object.entries(answered)
    .filter(([label, { group, statuses }]) => asksModel(label, group) && served(statuses) === 0)
    .map(([label, { statuses }]) => `${label}: ${JSON.stringify(statuses)}`);

const asksModel = (label: string, group: string) =>
  group === "inference" && label.startsWith("POST ") && !label.includes("/webhooks/");
