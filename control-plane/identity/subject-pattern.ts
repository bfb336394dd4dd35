// Patterns of subjects. `*` stands for any characters. Pure, and linear in time: a token's subject is chosen by others.

/** Issuers that every customer of a platform shares: the subject must name whose workload it is. */
const shared: Readonly<Record<string, { readonly form: RegExp; readonly example: string }>> = {
  "https://token.actions.githubusercontent.com": {
    form: /^repo:[\w.-]+\//,
    example: "repo:acme/app:ref:refs/heads/main",
  },
  "https://gitlab.com": {
    form: /^project_path:[^*/]+\//,
    example: "project_path:acme/app:ref_type:branch:ref:main",
  },
};

/** Returns why the pattern must not be used with this issuer; undefined: it may. */
export function patternProblem(issuer: string, pattern: string): string | undefined {
  if (pattern.startsWith("*")) return "The subject must not begin with `*`: everybody of the issuer would match.";
  const rule = shared[issuer.replace(/\/$/, "")];
  if (!rule || rule.form.test(pattern)) return undefined;
  return `Everybody gets tokens of this issuer, so the subject must name whose workload it is, such as ${rule.example}.`;
}

export function matchesSubject(pattern: string, subject: string): boolean {
  const [head = "", ...rest] = pattern.split("*");
  const tail = rest.pop();
  if (tail === undefined) return pattern === subject;
  if (!subject.startsWith(head) || subject.length < head.length + tail.length || !subject.endsWith(tail)) return false;
  let at = head.length;
  const end = subject.length - tail.length;
  for (const part of rest) {
    const found = subject.indexOf(part, at);
    if (found < 0 || found + part.length > end) return false;
    at = found + part.length;
  }
  return at <= end;
}
