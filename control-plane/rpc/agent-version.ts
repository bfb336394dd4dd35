// Minimum supported agent version. Messages only gain fields, so older agents stay compatible: the tests replay a recorded
// session of each version (test/fixtures/agent-sessions).

/** Raised when support for the last agent without a required feature ends. */
const minVersion = "0.1.0";

/** Returns why an agent of this version is refused; undefined: it is accepted. A pre-release counts as its release. */
export function whyVersionRefused(version: string, min = minVersion): string | undefined {
  const [given, wanted] = [numbersOf(version), numbersOf(min)];
  const shown = version.slice(0, 64);
  if (!given || !wanted)
    return `the agent reports the version "${shown}", which is not a version such as ${min}. Install a released agent on this host`;
  const at = wanted.findIndex((number, i) => number !== given[i]);
  if (at < 0 || (given[at] as number) > (wanted[at] as number)) return undefined;
  return `agent version ${shown} is too old: the control plane requires at least ${min}. Install a newer agent on this host and restart it`;
}

function numbersOf(version: string): readonly number[] | undefined {
  const match = /^v?(\d{1,6})\.(\d{1,6})\.(\d{1,6})(?:[-+].*)?$/.exec(version);
  return match?.slice(1).map(Number);
}
