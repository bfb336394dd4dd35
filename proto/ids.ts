// Branded identifiers. A raw string becomes an id only at an edge (HTTP, gRPC, a database row); ids are random, never counters.
import { randomBytes } from "node:crypto";

declare const brand: unique symbol;
export type Id<Kind extends string> = string & { readonly [brand]: Kind };

/** `u:` + 13 digits or letters; may contain a colon. */
export type AccountId = Id<"account">;
export type KeyId = Id<"key">;
/** A person or service account in an organisation. */
export type MemberId = Id<"member">;
export type ProjectId = Id<"project">;
/** 16 mixed-case alphanumerics. */
export type DeploymentId = Id<"deployment">;
/** A LoRA adapter. */
export type AdapterId = Id<"adapter">;
export type InstanceId = Id<"instance">;
export type HostId = Id<"host">;
/** 24 mixed-case alphanumerics, made by us at admission; never the client's `x-request-id`. */
export type RequestId = Id<"request">;
export type LeaseId = Id<"lease">;
export type BudgetId = Id<"budget">;
/** Budget of the account's own funds. */
export const accountBudget = (account: AccountId): BudgetId => `account/${account}` as BudgetId;
export type ReplicaId = Id<"replica">;

const alphabet = Buffer.from("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz");
/** Characters of the id that is being made. Adding them to a string one by one takes four times as long. */
let characters = Buffer.alloc(64);

// Random bytes are drawn in bulk: one system call per id would show on the hot path.
let pool = randomBytes(0);
let next = 0;

/** A random id of `length` base62 characters (5.95 bits each). */
export function randomId<Kind extends string>(length: number): Id<Kind> {
  if (length > characters.length) characters = Buffer.alloc(length);
  let count = 0;
  while (count < length) {
    if (next >= pool.length) {
      pool = randomBytes(4096);
      next = 0;
    }
    const byte = pool[next++] as number;
    // 248 is the largest multiple of 62 below 256: without the cut the first letters would be likelier.
    if (byte < 248) characters[count++] = alphabet[byte % 62] as number;
  }
  return characters.toString("latin1", 0, length) as Id<Kind>;
}
