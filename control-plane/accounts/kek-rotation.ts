// Re-sealing of each kind of secret in a rotation of the key-encryption key, and the report of the rotation.
import { join } from "node:path";
import type { AccountId, HostId } from "../../proto/ids.ts";
import { type AccountSecrets, newestKek, unwrapDek, wrapDek } from "./envelope.ts";
import type { RotateDeps, Rotation } from "./rotate-kek.ts";
import { authoritySeal, invoiceKeySeal, providerSeal, ticketKeySeal } from "./seals.ts";
import { kekFile, type SecretFiles } from "./secret-files.ts";

export function resealers(secrets: AccountSecrets): RotateDeps["reseal"] {
  const tickets = ticketKeySeal(secrets);
  const authority = authoritySeal(secrets);
  const providers = providerSeal(secrets);
  const invoices = invoiceKeySeal(secrets);
  return {
    "data keys": (id, sealed) =>
      wrapDek(newestKek(secrets), unwrapDek(secrets, sealed, id as AccountId), id as AccountId),
    "ticket keys": (id, sealed) => tickets.seal(tickets.open(sealed, id as HostId), id as HostId),
    "authority keys": (id, sealed) => authority.seal(authority.open(sealed, id), id),
    "provider secrets": (id, sealed) => providers.seal(providers.open(sealed, id), id),
    "invoice keys": (id, sealed) => invoices.seal(invoices.open(sealed, id), id),
  };
}

export function rotationReport(rotation: Rotation, secrets: SecretFiles): { text: string; isWhole: boolean } {
  const { version, resealed, left } = rotation;
  const done =
    `Key-encryption key ${version} is in use: ${resealed["data keys"]} data keys of accounts and ` +
    `${resealed["ticket keys"]} ticket keys of hosts were re-wrapped.`;
  const older = secrets.keks.filter((kek) => kek.version < version).map((kek) => kekFile(kek.version));
  if (Object.values(left).some((count) => count > 0)) {
    return {
      isWhole: false,
      text:
        `${done} ${left["data keys"]} data keys, ${left["ticket keys"]} ticket keys, ${left["authority keys"]} authority keys, ${left["provider secrets"]} secrets of identity providers and ${left["invoice keys"]} invoice keys cannot be opened with any key of ` +
        `${secrets.folder} and were not changed. Keep every key file; restore missing ones from a backup, then run ` +
        "this again.",
    };
  }
  if (older.length === 0) return { isWhole: true, text: done };
  const files = older.map((file) => join(secrets.folder, file)).join(" and ");
  return {
    isWhole: true,
    text:
      `${done} None is left under an older one. Restoring older backups of the database requires ` +
      `${older.join(" and ")}: keep ${older.length === 1 ? "it" : "them"} with those backups; here and on other machines ` +
      `${files} may be removed.`,
  };
}
