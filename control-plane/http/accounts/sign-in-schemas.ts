import { Type } from "typebox";
import type { FactorKind, RequiredFor, SessionFactor } from "../../accounts/factor-store.ts";
import { minPasswordLength } from "../../accounts/password-rule.ts";
import { nullable } from "../inference/sampling-schemas.ts";
import { NewAccount } from "./account-schemas.ts";

const newPassword = Type.String({
  minLength: minPasswordLength,
  maxLength: 1024,
  description: "Common passwords are refused",
});
/** A password that is only compared has no minimum length. */
const password = Type.String({ maxLength: 1024 });

export const SignInRequest = Type.Object({
  email: Type.String({ maxLength: 320, pattern: "^[^\\u0000]*$" }),
  password,
});

export const NewCredentials = Type.Object({
  email: NewAccount.properties.email,
  password: newPassword,
  display_name: NewAccount.properties.display_name,
});

const mailedTicket = Type.String({ maxLength: 64, description: "`ticket` of the link; valid for one use" });

export const MailedReset = Type.Object({ email: NewAccount.properties.email });
export const MailedTicket = Type.Object({ ticket: mailedTicket });
export const NewPasswordByLink = Type.Object({ ticket: mailedTicket, password: newPassword });

export const PasswordChange = Type.Object({
  password: newPassword,
  current_password: Type.Optional(
    nullable.string({ maxLength: 1024, description: "Required with a session that did not start with a passkey" }),
  ),
});

const sessionFactor = Type.Unsafe<SessionFactor>({
  type: "string",
  enum: ["password", "totp", "passkey", "recovery_code", "link", "oidc"],
});

export const AuthSession = Type.Object({
  uid: Type.String(),
  csrf_token: Type.String({ description: "For the header x-csrf-token of writes with the cookie" }),
  expires_at: Type.Integer({ description: "Unix seconds; each use extends it" }),
  auth_time: Type.Integer({
    description:
      "Unix seconds at which the person proved who they are, also at a provider; 0: the provider does not report it",
  }),
  factors: Type.Array(sessionFactor, { description: "How the person signed in" }),
  must_enrol: Type.Boolean({
    description: "A second factor is required and the account has none: every other request gets 403",
  }),
});

export const SignInLink = Type.Object({
  url: Type.String({ description: "Opens a page that signs in; for one use" }),
  expires_at: Type.Integer({ description: "Unix seconds" }),
});

const ticket = {
  ticket: Type.String({ description: "Valid for 5 minutes and one use" }),
  expires_at: Type.Integer({ description: "Unix seconds" }),
};
/** Options for `PublicKeyCredential.parseRequestOptionsFromJSON` and `parseCreationOptionsFromJSON`. */
const passkeyOptions = { additionalProperties: true, description: "WebAuthn options in their JSON form" };

const SecondFactorNeeded = Type.Object({
  ...ticket,
  methods: Type.Array(Type.String({ enum: ["totp", "passkey", "recovery_code"] })),
  passkey: nullable.object({
    ...passkeyOptions,
    description: "Challenge for the account's passkeys; null: it has none",
  }),
});

/** The session, or the second factor that is required. */
export const SignInAnswer = Type.Object({
  ...Type.Partial(AuthSession).properties,
  second_factor: nullable.object({
    properties: SecondFactorNeeded.properties,
    required: SecondFactorNeeded.required,
    description: "For POST /v1/auth/second-factor; null: signed in",
  }),
});

export const PasskeyStarted = Type.Object({ ...ticket, passkey: Type.Object({}, passkeyOptions) });

const webAuthn = (of: string) =>
  nullable.object({
    maxProperties: 16,
    description: `The credential of navigator.credentials.${of}, as toJSON gives it`,
  });
const code = nullable.string({ maxLength: 64, description: "Six digits of the authenticator app" });

export const SecondFactorProof = Type.Object({
  ticket: Type.String({ maxLength: 64 }),
  code: Type.Optional({ ...code, description: "Six digits of the authenticator app, or a recovery code" }),
  passkey: Type.Optional(webAuthn("get")),
});

export const NewCustomer = Type.Object({
  uid: Type.String(),
  api_key: Type.String({ description: "Shown once" }),
  csrf_token: Type.String(),
});

const kind = Type.Unsafe<FactorKind>({ type: "string", enum: ["totp", "passkey"] });

export const Factor = Type.Object({
  id: Type.String(),
  kind,
  name: Type.String(),
  created_at: Type.Integer({ description: "Unix seconds" }),
  last_used_at: nullable.integer({ description: "Unix seconds" }),
});

export const FactorList = Type.Object({
  factors: Type.Array(Factor),
  recovery_codes_left: Type.Integer(),
  has_password: Type.Boolean(),
  required: Type.Boolean({ description: "The operator requires a second factor of this account" }),
});

export const FactorStart = Type.Object({ kind });

export const FactorStarted = Type.Object({
  ...ticket,
  totp: nullable.object({
    required: ["secret", "uri", "qr_svg"],
    properties: {
      secret: { type: "string", description: "Base32" },
      uri: { type: "string", description: "otpauth://" },
      qr_svg: { type: "string" },
    },
  }),
  passkey: nullable.object(passkeyOptions),
});

const factorName = Type.String({ minLength: 1, maxLength: 64, pattern: "^[^\\u0000]*$" });

export const FactorProof = Type.Object({
  ticket: Type.String({ maxLength: 64 }),
  name: factorName,
  code: Type.Optional(code),
  passkey: Type.Optional(webAuthn("create")),
});

export const FactorName = Type.Object({ name: factorName });

const recoveryCodes = { items: { type: "string" }, description: "Each is valid for one sign-in; shown once" };

export const FactorAdded = Type.Object({
  factor: Factor,
  recovery_codes: Type.Unsafe<string[] | null>({ type: ["array", "null"], ...recoveryCodes }),
});

export const RecoveryCodeList = Type.Object({ recovery_codes: Type.Array(Type.String(), recoveryCodes) });

export const SignInPolicy = Type.Object({
  second_factor: Type.Unsafe<RequiredFor>({
    type: "string",
    enum: ["none", "operators", "all"],
    description: "Accounts that must have a second factor to use a browser session",
  }),
});

export const SignInPolicyChange = Type.Object({
  ...SignInPolicy.properties,
  note: Type.Optional(nullable.string({ maxLength: 2_000 })),
});
