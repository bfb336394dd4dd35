// Arguments of scripts/test.

export const suites = [
  "check",
  "unit",
  "contract",
  "architecture",
  "integration",
  "conformance",
  "security",
  "e2e",
  "docker",
  "chaos",
] as const;
export type Suite = (typeof suites)[number];

type Request =
  | { readonly kind: "suites"; readonly suites: readonly Suite[] }
  /** `since`: revision to compare with. Default: the merge base with main. */
  | { readonly kind: "changed"; readonly since: string | undefined }
  | { readonly kind: "wrong"; readonly why: string };

/** Suites are returned in their own order, each once. */
export function readArguments(args: readonly string[]): Request {
  if (args[0] === "--changed") {
    if (args.length > 2) return { kind: "wrong", why: "--changed takes at most one revision." };
    return { kind: "changed", since: args[1] };
  }
  const named: string[] = [];
  for (let at = 0; at < args.length; at += 1) {
    if (args[at] !== "--suite") named.push(args[at] ?? "");
    else if (at + 1 === args.length) return { kind: "wrong", why: "--suite needs a name." };
  }
  const flag = named.find((name) => name.startsWith("-"));
  if (flag !== undefined) return { kind: "wrong", why: `unknown option ${flag}. Supported: --suite NAME, --changed.` };
  const unknown = named.filter((name) => !suites.some((suite) => suite === name));
  if (unknown.length > 0)
    return { kind: "wrong", why: `no suite ${unknown.join(", ")}. Supported: ${suites.join(", ")}.` };
  return { kind: "suites", suites: named.length === 0 ? suites : suites.filter((suite) => named.includes(suite)) };
}
