/** Why a usage record is in quarantine. */
export type QuarantineProblem =
  /** It carries no sealed ticket. */
  | "unsealed"
  | "bad_seal"
  /** The key of the seal is no longer among the secrets. */
  | "unknown_key"
  /** The request was sent to another host. */
  | "other_host"
  /** A field holds what no honest agent writes. */
  | "malformed"
  /** PostgreSQL refuses a value of it. */
  | "refused_value"
  /** GPU time of an instance that never ran on the host that sent it. */
  | "unknown_instance"
  /** GPU time that lies in the future, or before or after the life of its instance. */
  | "outside_life";

/** A usage record that cannot be billed without an operator. */
export class RefusedRecord extends Error {
  override readonly name = "RefusedRecord";
  readonly problem: QuarantineProblem;
  constructor(problem: QuarantineProblem, message: string) {
    super(message);
    this.problem = problem;
  }
}
