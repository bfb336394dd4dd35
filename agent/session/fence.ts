// Decides if a desired state is accepted. An older control plane, or an older message of this one, changes nothing.

export interface Stamp {
  readonly nodeEpoch: bigint;
  readonly generation: bigint;
}

export type Verdict =
  | { readonly kind: "obey" }
  /** Already current. */
  | { readonly kind: "same" }
  | { readonly kind: "refuse"; readonly why: "rejected_epoch" | "older_generation" };

/** `held`: the last accepted one, if any. */
export function judgeDesired(
  given: Stamp,
  session: { readonly nodeEpoch: bigint },
  highestEpoch: bigint,
  held: Stamp | undefined,
): Verdict {
  if (given.nodeEpoch < highestEpoch || given.nodeEpoch !== session.nodeEpoch)
    return { kind: "refuse", why: "rejected_epoch" };
  if (!held) return { kind: "obey" };
  if (given.generation < held.generation) return { kind: "refuse", why: "older_generation" };
  return given.generation === held.generation && given.nodeEpoch === held.nodeEpoch
    ? { kind: "same" }
    : { kind: "obey" };
}
