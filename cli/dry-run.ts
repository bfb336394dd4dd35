import { exitCode } from "./cli-error.ts";

/** Option `--dry-run` of a command. `shown`: what it prints. */
export const dryRunOption = (shown: string): readonly [string, string] => [
  "--dry-run",
  `${shown}; changes nothing; exits with 0 if it would work, with 1 if not`,
];

/** Sets the exit code of a dry run. `repository` unknown: nobody knows whether it would work. */
export function endDryRun(wouldWork: boolean, repository?: string): void {
  const works = repository === "unknown" ? exitCode.unavailable : exitCode.done;
  process.exitCode = wouldWork ? works : exitCode.failed;
}
