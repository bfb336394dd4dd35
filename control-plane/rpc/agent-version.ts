// Minimum supported agent version. Messages only gain fields, so older agents stay compatible: the tests replay a recorded
// session of each version (test/fixtures/agent-sessions).

/** Raised when support for the last agent without a required feature ends. */
const leastVersion = "0.1.0";

/** Returns why an agent of this version is refused; undefined: it is accepted. A pre-release counts as its release. */
export function whyNotSpokenWith(version: string, least = leastVersion): string | undefined {
  const [given, wanted] = [numbersOf(version), numbersOf(least)];
  const said = version.slice(0, 64);
  if (!given || !wanted)
    return `the agent calls its version "${said}", which is none such as ${least}: install a released agent on this host`;
  const at = wanted.findIndex((number, i) => number !== given[i]);
  if (at < 0 || (given[at] as number) > (wanted[at] as number)) return undefined;
  return `this agent is of version ${said}, and the control plane speaks with ${least} and later: install one on this host and start it again`;
}

function numbersOf(version: string): readonly number[] | undefined {
  const match = /^v?(\d{1,6})\.(\d{1,6})\.(\d{1,6})(?:[-+].*)?$/.exec(version);
  return match?.slice(1).map(Number);
}
