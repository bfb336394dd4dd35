// Seals a model's reasoning for clients, which send it back in later requests of a conversation. Nothing is stored: the sealed text
// contains the reasoning, and only the account that received it can use it.
import type { AccountId } from "../../proto/ids.ts";
import { keepNewest } from "../../proto/keep-newest.ts";
import type { DataKeys } from "./data-keys.ts";
import { openSecret, sealSecret } from "./envelope.ts";

/** Seals reasoning of one account. */
export interface ReasoningSeal {
  /** Returns text in base64url. */
  seal(reasoning: string): string;
  /** Undefined: changed, or sealed for another account. */
  open(sealed: string): string | undefined;
}

export interface ReasoningSeals {
  /** Returns a promise only for the first request of an account: its data key stays in memory. */
  of(account: AccountId): ReasoningSeal | Promise<ReasoningSeal>;
}

const maxAccounts = 10_000;
const purpose = "reasoning";

export function createReasoningSeals(dataKeys: DataKeys): ReasoningSeals {
  const known = new Map<AccountId, ReasoningSeal>();
  return {
    of(account) {
      const seal = known.get(account);
      if (seal) return seal;
      return dataKeys.of(account).then((key) => {
        if (!key) throw new Error(`account ${account} has no data key`);
        return keepNewest(known, account, sealOf(key, account), maxAccounts);
      });
    },
  };
}

function sealOf(key: Buffer, account: AccountId): ReasoningSeal {
  return {
    seal: (reasoning) => sealSecret(key, reasoning, account, purpose).toString("base64url"),
    open(sealed) {
      try {
        return openSecret(key, Buffer.from(sealed, "base64url"), account, purpose);
      } catch {
        return undefined;
      }
    },
  };
}
