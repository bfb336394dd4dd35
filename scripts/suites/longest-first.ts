// Order of the test files of a run: a long file that starts last keeps one worker busy while the others are idle.
import { join } from "node:path";
import { BaseSequencer, type TestSpecification } from "vitest/node";
import { root } from "./run-tool.ts";

/** Files that take more than 20 s, by suite, the longest first. */
export const longest = [
  "docker/agent-instance",
  "docker/engine-restarted",
  "docker/agent-killed",
  "docker/agent-life",
  "docker/isolation",
  "docker/conformance",
  "docker/faults",
  "docker/pull",
  "integration/agent/frozen",
  "integration/clients/clients",
  "integration/accounts/backup-restore",
  "integration/responses/stored-responses",
  "integration/agent/failures",
  "integration/fleet/enrolment",
  "integration/fleet/process",
  "integration/agent-ingress/expired-certificates",
  "integration/agent-ingress/fairness",
  "integration/console/console",
  "integration/console/security",
  "integration/fleet/sessions",
  "e2e/scaling/scaling",
  "e2e/runtime/speech",
  "e2e/spine/real-model",
  "e2e/up/model",
  "e2e/spine/adapter",
  "chaos/restored-database",
  "chaos/clock-step",
  "chaos/control-plane-away",
  "chaos/random-kills",
  "chaos/webhooks",
  "chaos/agent-stopped",
  "chaos/agent-restart",
  "chaos/batch-killed",
  "chaos/limit-under-kill",
  "chaos/database-away",
  "chaos/database-full",
  "chaos/revocation",
  "chaos/redis-away",
  "chaos/database-frozen",
  "conformance/batch-queue",
  "conformance/repeated-jobs",
];
export const pathOf = (name: string): string => join(root, "test", `${name}.test.ts`);
const places = new Map(longest.map((name, place) => [pathOf(name), place]));
const placeOf = (file: TestSpecification): number => places.get(file.moduleId) ?? longest.length;

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    return (await super.sort(files)).toSorted((a, b) => placeOf(a) - placeOf(b));
  }
}
