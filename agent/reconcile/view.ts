// Input of a decision: the desired state, the observed state, and the facts about both.
import type { DesiredState__Output } from "../../proto/gen/stoker/fleet/v1/DesiredState.ts";
import type { InstanceId } from "../../proto/ids.ts";
import type { Observed } from "./driver.ts";
import type { Facts } from "./facts.ts";

export interface View {
  /** Undefined on a host that has not received a desired state. */
  readonly desired: Pick<DesiredState__Output, "generation" | "instances" | "tombstones"> | undefined;
  readonly observed: ReadonlyMap<InstanceId, Observed>;
  /** One entry per instance in `desired` and `observed`. */
  readonly facts: ReadonlyMap<InstanceId, Facts>;
  /** Instances whose step ended during the observation, which may be older than it: the next pass decides. */
  readonly unsettled: ReadonlySet<InstanceId>;
  /** The agent is fenced: nothing is started or restarted. */
  readonly isHeld: boolean;
  /** Monotonic. */
  readonly nowMs: number;
}
