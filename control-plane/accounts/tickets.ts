// Tickets: random ids of unfinished steps, valid for minutes and stored as a keyed hash. Each is used once.
import { createHmac, hkdfSync, randomBytes } from "node:crypto";
import { signInExpired } from "./factor-errors.ts";
import type { ChallengePurpose, ChallengeRow, ChallengeStore } from "./factor-store.ts";

export const ticketMs = 300_000;

export interface Ticket {
  readonly ticket: string;
  /** Unix ms. */
  readonly expiresAtMs: number;
}

export type FoundTicket = ChallengeRow & { readonly purpose: ChallengePurpose; readonly lookup: Buffer };

export function createTickets(deps: {
  readonly store: ChallengeStore;
  readonly pepper: Buffer;
  readonly unixMs: () => number;
}) {
  const { store, unixMs } = deps;
  const key = Buffer.from(hkdfSync("sha256", deps.pepper, "", "stoker sign-in tickets", 32));
  const lookupOf = (ticket: string) => createHmac("sha256", key).update(ticket).digest();
  async function known(ticket: string, purposes: readonly ChallengePurpose[]): Promise<FoundTicket | undefined> {
    const lookup = lookupOf(ticket);
    const row = await store.challenge(lookup, purposes, unixMs());
    return row && { ...row, lookup };
  }
  return {
    async issue(purpose: ChallengePurpose, row: Partial<ChallengeRow>, validMs = ticketMs): Promise<Ticket> {
      const ticket = randomBytes(32).toString("base64url");
      const expiresAtMs = unixMs() + validMs;
      const whole = { account: null, session: null, challenge: null, sealed: null, email: null, epoch: null, ...row };
      await store.putChallenge(lookupOf(ticket), purpose, whole, expiresAtMs);
      return { ticket, expiresAtMs };
    },
    /** Throws signInExpired for one that is unknown, used, expired or of another purpose. */
    async find(ticket: string, purposes: readonly ChallengePurpose[]): Promise<FoundTicket> {
      const found = await known(ticket, purposes);
      if (!found) throw signInExpired();
      return found;
    },
    /** Undefined for one that is unknown, used, expired or of another purpose. */
    known,
    /** Makes a ticket useless that somebody else may know. */
    async revoke(ticket: string): Promise<void> {
      await store.takeChallenge(lookupOf(ticket), unixMs());
    },
    /** Uses the ticket. Throws signInExpired when it was used before. */
    async take({ lookup }: FoundTicket): Promise<void> {
      if (!(await store.takeChallenge(lookup, unixMs()))) throw signInExpired();
    },
  };
}

export type Tickets = ReturnType<typeof createTickets>;
