// Limits for attempts with passwords, codes and passkeys, over all control planes. Attempts are counted before anything is
// verified, so that concurrent attempts cannot exceed a limit. Every refusal ends with its window: no account is locked out
// permanently.
import type { AccountId } from "../../proto/ids.ts";
import { type AttemptsLimit, countAttempts, networkOf } from "./attempts.ts";
import type { AttemptStore } from "./store.ts";

const quarterHourMs = 900_000;
const hourMs = 3_600_000;

export const attemptLimits = {
  /** Unfinished steps of sign-ins, sign-ups, e-mail changes and links of mails from one address. */
  perAddress: { max: 30, windowMs: quarterHourMs, isFinal: true },
  /** For one account from one network, or from one known device. */
  perAccount: { max: 10, windowMs: quarterHourMs },
  /** Passwords for one e-mail address from all unknown devices: bounds guessing from many networks. */
  perEmail: { max: 200, windowMs: quarterHourMs },
  /** The same for codes: 50 of a million per day, for an attacker who knows the password. */
  codesPerDay: { max: 50, windowMs: 86_400_000 },
  /** Mails for a new password to one address, asked for from one network: a stranger must not keep the owner from one. */
  resetsPerNetwork: { max: 3, windowMs: hourMs, isFinal: true },
  /** The same from all networks. */
  resetsPerMailbox: { max: 10, windowMs: hourMs, isFinal: true },
  /** Mails that verify an address: of one account, and of all, as anyone may sign up with any address. */
  verificationsPerAccount: { max: 5, windowMs: 24 * hourMs, isFinal: true },
  verificationsOfAll: { max: 200, windowMs: hourMs, isFinal: true },
  /** Mails of invitations: caused by one person, to one address, and of all. */
  invitationsPerPerson: { max: 50, windowMs: 24 * hourMs, isFinal: true },
  invitationsPerMailbox: { max: 5, windowMs: 24 * hourMs, isFinal: true },
  invitationsOfAll: { max: 200, windowMs: hourMs, isFinal: true },
  /** Exchanges of workloads' tokens from one address that failed or are running. */
  workloads: { max: 60, windowMs: quarterHourMs, isFinal: true },
  /** Sign-ins by passkey started from one address. */
  passkeyStarts: { max: 60, windowMs: quarterHourMs, isFinal: true },
} as const satisfies Record<string, AttemptsLimit>;

/** Origin of an attempt. */
export interface Origin {
  readonly ip: string;
  /** A device with an earlier sign-in of the account's owner. */
  readonly device: string | undefined;
}

/** All but `forgive` throw TooManyAttempts. */
export function createGuessLimits(deps: { readonly store: AttemptStore; readonly unixMs: () => number }) {
  const byAddress = countAttempts("address", attemptLimits.perAddress, deps);
  const byAccount = countAttempts("account", attemptLimits.perAccount, deps);
  const byEmail = countAttempts("email", attemptLimits.perEmail, deps);
  const byDay = countAttempts("code day", attemptLimits.codesPerDay, deps);
  const resets = countAttempts("reset", attemptLimits.resetsPerNetwork, deps);
  const mailboxes = countAttempts("mailbox", attemptLimits.resetsPerMailbox, deps);
  const verifications = countAttempts("verification", attemptLimits.verificationsPerAccount, deps);
  const allVerifications = countAttempts("verifications", attemptLimits.verificationsOfAll, deps);
  const invitations = countAttempts("invitation", attemptLimits.invitationsPerPerson, deps);
  const invited = countAttempts("invited", attemptLimits.invitationsPerMailbox, deps);
  const allInvitations = countAttempts("invitations", attemptLimits.invitationsOfAll, deps);
  const starts = countAttempts("passkey", attemptLimits.passkeyStarts, deps);
  const workloads = countAttempts("workload", attemptLimits.workloads, deps);
  const where = ({ ip, device }: Origin) => (device === undefined ? networkOf(ip) : `device ${device}`);
  const passwordKey = (name: string, from: Origin) => `email ${name} from ${where(from)}`;
  const factorKey = (account: AccountId, from: Origin) => `factor ${account} from ${where(from)}`;
  const presentKey = (account: AccountId) => `account ${account}`;

  return {
    address: (ip: string): Promise<void> => byAddress.take(networkOf(ip)),
    /** `name`: e-mail address as the database compares it, also an unknown one. */
    async password(name: string, from: Origin): Promise<void> {
      // Attempts beyond one network's own limit do not count against the account.
      await byAccount.take(passwordKey(name, from));
      if (from.device === undefined) await byEmail.take(name);
    },
    /** Counted per network only: a passkey cannot be guessed, and stays usable while codes are being guessed. */
    passkey: (account: AccountId, from: Origin): Promise<void> => byAccount.take(factorKey(account, from)),
    /** A code of the app, or a recovery code. */
    async code(account: AccountId, from: Origin): Promise<void> {
      await byAccount.take(factorKey(account, from));
      if (from.device === undefined) await byDay.take(account);
    },
    /** The current password, given within a session. */
    presentPassword: (account: AccountId): Promise<void> => byAccount.take(presentKey(account)),
    /** `name`: as `password` takes it. */
    async reset(name: string, ip: string): Promise<void> {
      await resets.take(`${name} from ${networkOf(ip)}`);
      await mailboxes.take(name);
    },
    async verification(account: AccountId): Promise<void> {
      await verifications.take(account);
      await allVerifications.take("");
    },
    /** `by`: the person, service account or organization that invites. */
    async invitation(by: string, email: string): Promise<void> {
      await invitations.take(by);
      await invited.take(email.toLowerCase());
      await allInvitations.take("");
    },
    /** Returns what subtracts the exchange when it has succeeded. */
    async workload(ip: string): Promise<() => Promise<void>> {
      const network = networkOf(ip);
      await workloads.take(network);
      return () => workloads.giveBack(network, 1);
    },
    passkeyStart: (ip: string): Promise<void> => starts.take(networkOf(ip)),
    forgivePresentPassword: (account: AccountId): Promise<void> => byAccount.forgive(presentKey(account)),
    /** The sign-in finished in `steps` counted steps: subtract them. */
    async forgive(account: AccountId, name: string, from: Origin, steps: number): Promise<void> {
      await byAccount.forgive(passwordKey(name, from));
      await byAccount.forgive(factorKey(account, from));
      await byEmail.forgive(name);
      await byDay.forgive(account);
      await byAddress.giveBack(networkOf(from.ip), steps);
    },
  };
}

export type GuessLimits = ReturnType<typeof createGuessLimits>;
