import { exitCode } from "./cli-error.ts";

/** Option `--dry-run` of a command. `shown`: what it prints. */
export const dryRunOption = (shown: string): readonly [string, string] => [
  "--dry-run",
  `${shown}; changes nothing; exits with 0 if it would work, with 1 if not`,
];

/** Sets the exit code of a dry run. */
export function endDryRun(wouldWork: boolean): void {
  process.exitCode = wouldWork ? exitCode.done : exitCode.failed;
}
