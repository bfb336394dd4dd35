// Which agents are still spoken with. Messages only ever gain fields, so an older agent is understood as long as it stands here:
// a recorded session of each (test/fixtures/agent-sessions) is replayed by the tests.

/** Raised when the last agent that lacks something this control plane cannot do without is given up. */
const leastVersion = "0.1.0";

/** Why an agent of this version is not let in, for its operator; undefined when it is. A pre-release counts as its release. */
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
