// Versions of engines from elsewhere, from an image's tag or an installed package.

export interface EngineVersion {
  readonly major: number;
  readonly minor: number;
  readonly patch: number;
}

/** Versions that have something: from `since`, and before `until`. Absent: without that bound. */
export interface Lifetime {
  readonly since?: string;
  readonly until?: string;
}

/** Reads text such as `v0.11.2-cu129`. Undefined where it is no version. */
export function readVersion(text: string): EngineVersion | undefined {
  const parts = /^v?(\d{1,6})\.(\d{1,6})(?:\.(\d{1,6}))?(?![\d.]*\d)/.exec(text);
  return parts ? { major: Number(parts[1]), minor: Number(parts[2]), patch: Number(parts[3] ?? 0) } : undefined;
}

/** Undefined is the newest version that is known here. */
export function isAtLeast(version: EngineVersion | undefined, major: number, minor: number, patch = 0): boolean {
  if (version === undefined) return true;
  if (version.major !== major) return version.major > major;
  return version.minor === minor ? version.patch >= patch : version.minor > minor;
}

export function isWithin(version: EngineVersion, { since, until }: Lifetime): boolean {
  return (since === undefined || isFrom(version, since)) && (until === undefined || !isFrom(version, until));
}

function isFrom(version: EngineVersion, first: string): boolean {
  const from = readVersion(first);
  return from === undefined || isAtLeast(version, from.major, from.minor, from.patch);
}

export const showVersion = ({ major, minor, patch }: EngineVersion): string => `${major}.${minor}.${patch}`;
