// Every status that the operations of second factors declare.
import { Secret, TOTP } from "otpauth";
import { describe, expect, it } from "vitest";
import { Authenticator } from "../fakes/authenticator.ts";
import {
  addApp,
  browser,
  checkStatuses,
  createCustomer,
  createEndedCustomer,
  installation,
  operatorKey,
  password,
  type StatusRow,
  send,
  signIn,
  succeed,
  type Values,
} from "./status-table.ts";

const inSession = { key: null, send: browser } as const;
/** Passkeys are bound to a host name: the address of the installation has none. */
const named = { at: installation.url.replace("127.0.0.1", "localhost") };
const site = { id: "localhost", origin: named.at };
const rename = "PATCH /v1/me/factors/{factor}";
const remove = "DELETE /v1/me/factors/{factor}";
const finish = "POST /v1/auth/second-factor";
const reset = "DELETE /v1/admin/accounts/{uid}/factors";
const sessions = "GET /v1/me/sessions";
const endSession = "DELETE /v1/me/sessions/{session}";
const policy = { second_factor: "none" };
const proof = { ticket: "{ticket}", code: "{code}" };

/** A signed-in account without a second factor. */
async function plain(): Promise<Values> {
  const customer = await createCustomer();
  return { ...customer, ...(await signIn(customer)) };
}

async function withSession(): Promise<Values> {
  const values = await plain();
  const { sessions: all } = await succeed({ call: sessions }, values);
  return { ...values, session: all[0].id };
}

/** A signed-in account with an authenticator app. */
async function withApp(): Promise<Values> {
  const values = await plain();
  const { id, code } = await addApp(values);
  return { ...values, factor: id, code: code() };
}

/** The first step of a sign-in was made. */
async function halfSignedIn(): Promise<Values> {
  const values = await withApp();
  const body = { email: "{email}", password };
  const { second_factor } = await succeed({ call: "POST /v1/auth/sign-in", key: null, body }, values);
  return { ...values, ticket: second_factor.ticket };
}

/** A new app whose first code was not sent yet. */
async function startedApp(values: Values) {
  return succeed({ ...inSession, call: "POST /v1/me/factors", body: { kind: "totp" } }, values);
}

/** A sign-in by passkey, signed and not yet sent. */
async function signedByPasskey(): Promise<{ ticket: string; passkey: object }> {
  const customer = await createCustomer();
  const values: Values = { ...customer, ...(await signIn(customer)) };
  const authenticator = new Authenticator();
  const started = await succeed(
    { ...inSession, ...named, call: "POST /v1/me/factors", body: { kind: "passkey" } },
    values,
  );
  const passkey = authenticator.create(site, started.passkey.challenge);
  const body = { ticket: started.ticket, name: "key", passkey };
  await succeed({ ...inSession, ...named, call: "PUT /v1/me/factors", body }, values);
  const signing = await succeed({ ...named, call: "POST /v1/auth/passkey", key: null });
  return { ticket: signing.ticket, passkey: authenticator.get(site, signing.passkey.challenge) };
}

const fromAddress = (ip: string) => ({ "x-forwarded-for": ip });
const repeated = (times: number, row: Parameters<typeof send>[0]) => async () => {
  for (let n = 0; n < times; n++) await send(row);
};
const starts = { ...named, call: "POST /v1/auth/passkey", key: null, send: fromAddress("203.0.113.90") } as const;
const guesses = {
  call: finish,
  key: null,
  body: { ticket: "t", code: "000000" },
  send: fromAddress("203.0.113.91"),
} as const;

const rows: readonly StatusRow[] = [
  {
    call: "POST /v1/auth/sign-in",
    status: 200,
    key: null,
    body: { email: "{email}", password },
    holds: {
      second_factor: {
        ticket: expect.any(String),
        expires_at: expect.any(Number),
        methods: ["totp", "recovery_code"],
        passkey: null,
      },
    },
  },

  {
    ...named,
    call: "POST /v1/auth/passkey",
    status: 200,
    key: null,
    holds: { passkey: { challenge: expect.any(String) } },
  },
  {
    call: "POST /v1/auth/passkey",
    status: 403,
    key: null,
    send: { "sec-fetch-site": "cross-site" },
    holds: { code: "csrf_refused" },
  },
  { call: "POST /v1/auth/passkey", status: 409, key: null, holds: { code: "second_factor_conflict" } },
  // One address starts at most 60 sign-ins by passkey in 15 minutes.
  { ...starts, status: 429, given: repeated(60, starts), holds: { code: "too_many_requests" } },

  { call: finish, status: 200, key: null, given: halfSignedIn, body: proof, holds: { uid: "{uid}" } },
  {
    call: finish,
    status: 401,
    key: null,
    given: halfSignedIn,
    body: { ...proof, code: "000000" },
    holds: { code: "wrong_second_factor" },
  },
  {
    call: finish,
    status: 401,
    key: null,
    body: { ticket: "unknown", code: "123456" },
    holds: { code: "sign_in_expired" },
  },
  { call: finish, status: 403, key: null, body: proof, send: { "sec-fetch-site": "cross-site" } },
  { call: finish, status: 422, key: null, body: { code: "123456" } },
  { call: finish, status: 422, key: null, body: { ...proof, passkey: "text" } },
  // One address takes at most 30 steps of sign-ins in 15 minutes.
  { ...guesses, status: 429, given: repeated(30, guesses), holds: { code: "too_many_attempts" } },

  {
    call: sessions,
    status: 200,
    given: plain,
    holds: { sessions: [{ factors: ["password"], current: false, ip: "127.0.0.1" }] },
  },
  { ...inSession, call: sessions, status: 200, given: plain, holds: { sessions: [{ current: true }] } },
  { call: sessions, status: 401, key: null },
  { call: endSession, status: 200, given: withSession },
  { call: endSession, status: 401, key: null },
  { call: "DELETE /v1/me/sessions/0123456789abcdef", status: 404, holds: { code: "session_not_found" } },

  {
    call: "GET /v1/me/factors",
    status: 200,
    holds: { factors: [{ id: "{factor}", kind: "totp" }], recovery_codes_left: 10, required: false },
  },
  { call: "GET /v1/me/factors", status: 401, key: null },
  { call: "GET /v1/me/factors", status: 404, given: createEndedCustomer },

  {
    ...inSession,
    call: "POST /v1/me/factors",
    status: 200,
    given: plain,
    body: { kind: "totp" },
    holds: { totp: { secret: expect.any(String), qr_svg: expect.stringContaining("<svg") }, passkey: null },
  },
  {
    ...inSession,
    ...named,
    call: "POST /v1/me/factors",
    status: 200,
    body: { kind: "passkey" },
    holds: { totp: null, passkey: { challenge: expect.any(String) } },
  },
  { call: "POST /v1/me/factors", status: 401, key: null, body: { kind: "totp" } },
  { call: "POST /v1/me/factors", status: 403, body: { kind: "totp" }, holds: { code: "session_required" } },
  { ...inSession, call: "POST /v1/me/factors", status: 409, body: { kind: "totp" } },
  { ...inSession, call: "POST /v1/me/factors", status: 422, body: { kind: "sms" } },

  {
    ...inSession,
    call: "PUT /v1/me/factors",
    status: 401,
    given: async () => {
      const values = await plain();
      return { ...values, ticket: (await startedApp(values)).ticket };
    },
    body: { ...proof, code: "000000", name: "telephone" },
    holds: { code: "wrong_second_factor" },
  },
  { call: "PUT /v1/me/factors", status: 403, body: { ...proof, name: "a" }, holds: { code: "session_required" } },
  { ...inSession, call: "PUT /v1/me/factors", status: 422, body: { ...proof, name: "" } },

  {
    call: rename,
    status: 200,
    body: { name: "old telephone" },
    holds: { id: "{factor}", kind: "totp", name: "old telephone" },
  },
  { ...inSession, call: rename, status: 200, body: { name: "old telephone" } },
  { call: rename, status: 401, key: null, body: { name: "a" } },
  { call: "PATCH /v1/me/factors/other", status: 404, body: { name: "a" }, holds: { code: "second_factor_not_found" } },
  { call: rename, status: 422, body: { name: "" } },
  { call: rename, status: 422, body: { name: "a".repeat(65) } },
  { call: rename, status: 422, body: { name: "a\u0000b" } },
  { call: rename, status: 422, body: {} },

  { ...inSession, call: remove, status: 200, given: withApp },
  { call: remove, status: 401, key: null },
  { call: remove, status: 403, holds: { code: "session_required" } },
  {
    ...inSession,
    call: "DELETE /v1/me/factors/other",
    status: 404,
    holds: { code: "second_factor_not_found" },
  },

  {
    ...inSession,
    call: "POST /v1/me/recovery-codes",
    status: 200,
    holds: { recovery_codes: expect.arrayContaining([expect.any(String)]) },
  },
  { call: "POST /v1/me/recovery-codes", status: 401, key: null },
  { call: "POST /v1/me/recovery-codes", status: 403, holds: { code: "session_required" } },
  { ...inSession, call: "POST /v1/me/recovery-codes", status: 409, given: plain },

  { call: "POST /v1/me/password", status: 403, body: { password }, holds: { code: "session_required" } },

  { call: "GET /v1/admin/sign-in-policy", status: 200, key: operatorKey, holds: { second_factor: "none" } },
  { call: "GET /v1/admin/sign-in-policy", status: 401, key: null },
  { call: "GET /v1/admin/sign-in-policy", status: 403 },
  { call: "PUT /v1/admin/sign-in-policy", status: 200, key: operatorKey, body: policy, holds: policy },
  { call: "PUT /v1/admin/sign-in-policy", status: 401, key: null, body: policy },
  { call: "PUT /v1/admin/sign-in-policy", status: 403, body: policy },
  { call: "PUT /v1/admin/sign-in-policy", status: 422, key: operatorKey, body: { second_factor: "some" } },
  { call: reset, status: 200, key: operatorKey, given: withApp, holds: { removed: 1 } },
  { call: reset, status: 401, key: null },
  { call: reset, status: 403 },
  { call: reset, status: 404, key: operatorKey, given: async () => ({ uid: "u:9999999999999" }) },
];

describe("second factors", () => {
  checkStatuses(withApp, rows);

  it("returns 409 for POST /v1/auth/second-factor where the address has no name for passkeys", async () => {
    const body = await signedByPasskey();
    const reply = await send({ call: finish, key: null, body });
    expect([reply.status, reply.json.code]).toEqual([409, "second_factor_conflict"]);
  });

  it("returns 200 for PUT /v1/me/factors, and 409 for a second app that was started before", async () => {
    const values = await plain();
    const second = await startedApp(values);
    const { id } = await addApp(values);
    const body = { ticket: second.ticket, code: codeOf(second.totp.secret), name: "second" };
    const reply = await send({ ...inSession, call: "PUT /v1/me/factors", body }, values);
    expect([reply.status, reply.json.code]).toEqual([409, "second_factor_conflict"]);
    const { factors } = await succeed({ call: "GET /v1/me/factors" }, values);
    expect(factors).toMatchObject([{ id }]);
  });
});

const codeOf = (secret: string) => new TOTP({ secret: Secret.fromBase32(secret) }).generate();
