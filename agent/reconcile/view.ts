// What a decision is made from: what is wanted, what was seen, and what is remembered of both.
import type { DesiredState__Output } from "../../proto/gen/stoker/fleet/v1/DesiredState.ts";
import type { InstanceId } from "../../proto/ids.ts";
import type { Observed } from "./driver.ts";
import type { Facts } from "./facts.ts";

export interface View {
  /** Undefined on a host that was never told. */
  readonly desired: Pick<DesiredState__Output, "generation" | "instances" | "tombstones"> | undefined;
  readonly observed: ReadonlyMap<InstanceId, Observed>;
  /** One of every instance in `desired` and `observed`. */
  readonly facts: ReadonlyMap<InstanceId, Facts>;
  /** A step of theirs ended while the driver was asked, so what was seen may be older than it: the next pass decides. */
  readonly unsettled: ReadonlySet<InstanceId>;
  /** The agent is fenced: nothing is started, and what does not run is not brought back. */
  readonly isHeld: boolean;
  /** Monotonic. */
  readonly nowMs: number;
}
