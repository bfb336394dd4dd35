// Second factors of one account, for the HTTP edge in tests.
import { factorNotFound } from "../../control-plane/accounts/factor-errors.ts";
import type { FactorRecord } from "../../control-plane/accounts/factor-store.ts";
import type { Factors } from "../../control-plane/accounts/factors.ts";

export const ticket = { ticket: "ticket-of-ada", expiresAtMs: 1_786_000_300_000 };

const app: FactorRecord = {
  id: "factor-of-ada",
  kind: "totp",
  name: "telephone",
  createdAtMs: 1_786_000_000_000,
  lastUsedAtMs: null,
};

/** `list`: factors of the account. */
export function fakeFactors(list: readonly FactorRecord[] = [app]): Factors {
  return {
    overview: () =>
      Promise.resolve({
        email: "ada@example.com",
        displayName: "ada",
        hasPassword: true,
        factors: [...list],
        recoveryCodeCount: 9,
        isRequired: false,
      }),
    start: (_actor, kind) =>
      Promise.resolve({
        ...ticket,
        totp: kind === "totp" ? { secret: "SECRET", uri: "otpauth://totp/x", qrSvg: "<svg></svg>" } : null,
        passkey: kind === "passkey" ? { challenge: "Y2hhbGxlbmdl" } : null,
      }),
    finish: () => Promise.resolve({ factor: app, recoveryCodes: ["0000-1111-2222-3333"] }),
    rename: (_actor, id, name) =>
      id === app.id ? Promise.resolve({ ...app, name }) : Promise.reject(factorNotFound()),
    remove: (_actor, id) => (id === app.id ? Promise.resolve(app) : Promise.reject(factorNotFound())),
    renewRecoveryCodes: () => Promise.resolve(["0000-1111-2222-3333"]),
    reset: () => Promise.resolve(1),
    policy: () => Promise.resolve("none"),
    setPolicy: async () => {},
  };
}
