// Actor of an audited action. Every part of the control plane may import this file.
import type { AccountId, MemberId } from "../proto/ids.ts";

/** Actor, address and note of an audited action. */
export interface Act {
  /** The acting account, or the member id of a service account; `system` for Stoker itself. */
  readonly by: string;
  /** The client's address; empty for `system`. */
  readonly ip: string;
  readonly note: string;
  /** Check of the member who acts in an organization, made in the transaction of the change. Absent: the account itself acts. */
  readonly guard?: ActGuard;
}

/** The member may have been removed, or have another role, since the request was authorized. */
export interface ActGuard {
  readonly member: MemberId;
  /** Throws the refusal if a member with this role may not make the change. Undefined: no longer a member. */
  readonly check: (role: string | undefined) => void;
}

export const bySystem = (note: string): Act => ({ by: "system", ip: "", note });

/** A person acting on their own account, for the audit log. */
export interface Actor {
  readonly account: AccountId;
  /** The client's address. */
  readonly ip: string;
  /** The member who acts in an organisation, as in `Act`; default: the account itself. */
  readonly by?: string;
}
