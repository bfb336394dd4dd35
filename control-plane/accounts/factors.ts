// Second factors as their owner manages them. A factor is active once proven: with a code of the app or a signature of the
// passkey, under a ticket of the session that requested it.
import { type AccountId, randomId } from "../../proto/ids.ts";
import type { Act, Actor } from "../act.ts";
import type { DataKeys } from "./data-keys.ts";
import { openSecret, sealSecret } from "./envelope.ts";
import { accountGone, accountNotFound } from "./errors.ts";
import { factorConflict, factorNotFound, signInExpired, WrongSecondFactor } from "./factor-errors.ts";
import type { FactorKind, FactorOverview, FactorRecord, FactorStore, NewFactor, RequiredFor } from "./factor-store.ts";
import { type PasskeyOptions, type RelyingParty, registrationOptions, siteOf, verifyRegistration } from "./passkeys.ts";
import type { RecoveryCodes } from "./recovery-codes.ts";
import type { Session } from "./sessions.ts";
import type { Ticket, Tickets } from "./tickets.ts";
import { makeTotpSecret, type TotpSecret, totpStep } from "./totp.ts";

export const maxFactors = 20;

export interface Enrolment extends Ticket {
  readonly totp: TotpSecret | null;
  readonly passkey: PasskeyOptions | null;
}

export interface EnrolmentProof {
  readonly ticket: string;
  readonly name: string;
  /** Code of the authenticator app. */
  readonly code: string | undefined;
  /** Result of `navigator.credentials.create`, in WebAuthn's JSON form. */
  readonly passkey: unknown;
}

export interface FactorsDeps {
  readonly store: FactorStore;
  readonly tickets: Tickets;
  readonly recoveryCodes: RecoveryCodes;
  readonly dataKeys: DataKeys;
  readonly unixMs: () => number;
}

/** Binds a sealed TOTP secret to its account. */
export const totpPurpose = "second_factor|totp";

/** All throw accountGone for an account that is gone. */
export function createFactors(deps: FactorsDeps) {
  const { store, tickets, dataKeys, recoveryCodes, unixMs } = deps;

  async function overview(account: AccountId): Promise<FactorOverview> {
    const found = await store.overview(account);
    if (!found) throw accountGone();
    return found;
  }

  return {
    overview,

    /** Throws factorConflict. */
    async start(actor: Actor, kind: FactorKind, session: Session, site: RelyingParty | undefined): Promise<Enrolment> {
      const { account } = actor;
      const { email, displayName, factors } = await overview(account);
      if (factors.length >= maxFactors) throw full();
      const bound = { account, session: session.lookup };
      if (kind === "passkey") {
        const options = await registrationOptions(
          siteOf(site),
          { account, email, displayName },
          await store.passkeysOf(account),
        );
        const issued = await tickets.issue("enrol_passkey", { ...bound, challenge: options.challenge });
        return { ...issued, totp: null, passkey: options };
      }
      if (factors.some((factor) => factor.kind === "totp")) throw hasTotp();
      const totp = makeTotpSecret("Stoker", email);
      const sealed = sealSecret(await dekOf(dataKeys, account), totp.secret, account, totpPurpose);
      const issued = await tickets.issue("enrol_totp", { ...bound, sealed });
      return { ...issued, totp, passkey: null };
    },

    /**
     * Adds the factor. The first one comes with recovery codes, shown once, and ends every other session. Throws signInExpired,
     * WrongSecondFactor, factorConflict.
     */
    async finish(
      actor: Actor,
      proof: EnrolmentProof,
      session: Session,
      site: RelyingParty | undefined,
    ): Promise<{ readonly factor: FactorRecord; readonly recoveryCodes: readonly string[] | null }> {
      const factor = await proven(deps, actor, proof, session, site);
      const { codes, hashes } = recoveryCodes.make(actor.account);
      const extra = { session: session.lookup, recoveryCodes: hashes, maxFactors };
      const outcome = await store.addFactor(actor, factor, extra);
      if (outcome === "gone") throw accountGone();
      if (outcome === "full") throw full();
      if (outcome === "taken") throw factor.kind === "totp" ? hasTotp() : isKnown();
      const { id, kind, name } = factor;
      const record = { id, kind, name, createdAtMs: unixMs(), lastUsedAtMs: null };
      return { factor: record, recoveryCodes: outcome.hasNewCodes ? codes : null };
    },

    /** Throws factorNotFound. */
    async rename(actor: Actor, id: string, name: string): Promise<FactorRecord> {
      const renamed = await store.renameFactor(actor, id, name);
      if (!renamed) throw factorNotFound();
      return renamed;
    },

    /** Throws factorNotFound. */
    async remove(actor: Actor, id: string): Promise<FactorRecord> {
      const removed = await store.removeFactor(actor, id);
      if (!removed) throw factorNotFound();
      return removed;
    },

    /** Replaces the recovery codes. Throws factorConflict where there is no second factor. */
    async renewRecoveryCodes(actor: Actor): Promise<readonly string[]> {
      const { codes, hashes } = recoveryCodes.make(actor.account);
      if (await store.setRecoveryCodes(actor, hashes)) return codes;
      throw factorConflict("Recovery codes replace a second factor, and there is none. Add a second factor first.");
    },

    /** By an operator, for an owner who has lost them: removes all and ends the sessions. Throws accountNotFound. */
    async reset(account: AccountId, act: Act): Promise<number> {
      const removed = await store.resetFactors(account, act);
      if (removed === undefined) throw accountNotFound();
      return removed;
    },

    policy: (): Promise<RequiredFor> => store.policy(),
    setPolicy: (requiredFor: RequiredFor, act: Act): Promise<void> => store.setPolicy(requiredFor, act),
  };
}

export type Factors = ReturnType<typeof createFactors>;

async function dekOf(dataKeys: DataKeys, account: AccountId): Promise<Buffer> {
  const dek = await dataKeys.of(account);
  if (!dek) throw accountGone();
  return dek;
}

async function proven(
  { tickets, dataKeys, unixMs }: FactorsDeps,
  { account }: Actor,
  { ticket, name, code, passkey }: EnrolmentProof,
  session: Session,
  site: RelyingParty | undefined,
): Promise<NewFactor> {
  const found = await tickets.find(ticket, ["enrol_totp", "enrol_passkey"]);
  if (found.account !== account || !found.session?.equals(session.lookup)) throw signInExpired();
  const shared = { id: randomId<"factor">(16), name };
  if (found.purpose === "enrol_totp") {
    const secret = openSecret(await dekOf(dataKeys, account), found.sealed as Buffer, account, totpPurpose);
    const step = totpStep(secret, code ?? "", unixMs());
    // A mistyped code may be retried under the same ticket.
    if (step === undefined) throw new WrongSecondFactor("totp");
    await tickets.take(found);
    return { ...shared, kind: "totp", sealed: found.sealed as Buffer, step };
  }
  await tickets.take(found);
  return {
    ...shared,
    kind: "passkey",
    ...(await verifyRegistration(siteOf(site), found.challenge as string, passkey)),
  };
}

const full = () => factorConflict(`An account has at most ${maxFactors} second factors. Remove one first.`);
const hasTotp = () => factorConflict("An account has one authenticator app. Remove it to set up another one.");
const isKnown = () => factorConflict("This passkey is set up already. Choose another one.");
