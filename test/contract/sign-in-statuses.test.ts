import { randomBytes } from "node:crypto";
import { describe, expect } from "vitest";
import {
  browser,
  checkStatuses,
  createCustomer,
  createEndedCustomer,
  installation,
  password,
  type StatusRow,
  send,
  signIn,
  type Values,
} from "./status-table.ts";

const signUpCall = "POST /v1/auth/sign-up";
const signInCall = "POST /v1/auth/sign-in";
const credentials = { email: "{email}", password };
const wrong = { ...credentials, password: "no" };
const passwordCall = "POST /v1/me/password";
const resetCall = "POST /v1/auth/reset-password";
const newPasswordCall = "POST /v1/auth/new-password";
const verifyCall = "POST /v1/auth/verify-email";

async function arrange(): Promise<Values> {
  const customer = await createCustomer();
  return { ...customer, ...(await signIn(customer)) };
}

async function newName(): Promise<Values> {
  const name = `n-${randomBytes(6).toString("hex")}`;
  return { name, email: `${name}@example.com` };
}

/** Sends it so often that the next one of this client is too many. */
const repeated =
  (times: number, row: Parameters<typeof send>[0]) =>
  async (values: Values): Promise<void> => {
    for (let n = 0; n < times; n++) await send(row, values);
  };
const fromAddress = (ip: string) => ({ "x-forwarded-for": ip });
const customerBody = { ...credentials, display_name: "{name}" };
const tooMany = {
  code: "too_many_attempts",
  error: expect.stringMatching(/^Too many attempts\. Try again in \d+ minutes?\.$/),
};

const rows: readonly StatusRow[] = [
  {
    call: signUpCall,
    status: 200,
    key: null,
    given: newName,
    body: customerBody,
    holds: { uid: expect.stringMatching(/^u:/), api_key: expect.stringMatching(/^stk_/) },
  },
  { call: signUpCall, status: 403, key: null, at: installation.closedUrl, given: newName, body: customerBody },
  { call: signUpCall, status: 409, key: null, body: customerBody, holds: { code: "name_taken" } },
  {
    call: signUpCall,
    status: 422,
    key: null,
    body: { ...customerBody, password: "eleven_char" },
    holds: { detail: [{ loc: ["body", "password"] }] },
  },
  { call: signUpCall, status: 422, key: null, body: { ...customerBody, email: "ada" } },
  {
    call: signUpCall,
    status: 429,
    key: null,
    // One address signs up at most 30 times in 15 minutes; a weak password counts.
    send: fromAddress("203.0.113.80"),
    body: { ...customerBody, password: "password1234" },
    given: repeated(30, {
      call: signUpCall,
      key: null,
      send: fromAddress("203.0.113.80"),
      body: { ...customerBody, password: "password1234" },
    }),
    holds: tooMany,
  },

  {
    call: signInCall,
    status: 200,
    key: null,
    body: credentials,
    holds: { uid: "{uid}", csrf_token: expect.any(String), factors: ["password"], second_factor: null },
  },
  { call: signInCall, status: 401, key: null, body: wrong, holds: { code: "wrong_password" } },
  { call: signInCall, status: 422, key: null, body: { email: "{email}" } },
  {
    call: signInCall,
    status: 429,
    key: null,
    // One address tries at most 10 passwords of an account in 15 minutes.
    send: fromAddress("203.0.113.81"),
    body: credentials,
    given: repeated(10, { call: signInCall, key: null, send: fromAddress("203.0.113.81"), body: wrong }),
    holds: tooMany,
  },

  // With a mail server: test/integration/accounts/account-mails.test.ts.
  { call: resetCall, status: 409, key: null, body: { email: "{email}" }, holds: { code: "mail_disabled" } },
  { call: resetCall, status: 422, key: null, body: { email: "ada" } },
  { call: verifyCall, status: 401, key: null, body: { ticket: "x" }, holds: { code: "mail_link_expired" } },
  { call: verifyCall, status: 422, key: null, body: {} },
  {
    call: verifyCall,
    status: 429,
    key: null,
    send: fromAddress("203.0.113.82"),
    body: { ticket: "x" },
    given: repeated(30, { call: verifyCall, key: null, send: fromAddress("203.0.113.82"), body: { ticket: "x" } }),
    holds: tooMany,
  },
  {
    call: newPasswordCall,
    status: 401,
    key: null,
    body: { ticket: "x", password },
    holds: { code: "mail_link_expired" },
  },
  { call: newPasswordCall, status: 422, key: null, body: { ticket: "x", password: "short" } },
  { call: "POST /v1/me/verify-email", status: 401, key: null },
  { call: "POST /v1/me/verify-email", status: 404, given: createEndedCustomer },
  { call: "POST /v1/me/verify-email", status: 409, holds: { code: "mail_disabled" } },

  { call: "GET /v1/auth/session", status: 401, key: null },
  { call: "GET /v1/auth/session", status: 404, holds: { code: "no_session" } },
  { call: "POST /v1/auth/sign-out", status: 401, key: null },
  { call: "POST /v1/auth/sign-out", status: 404, holds: { code: "no_session" } },
  { call: passwordCall, status: 200, body: { password }, holds: {} },
  { call: passwordCall, status: 401, key: null, body: { password } },
  { call: passwordCall, status: 422, body: { password: "short" } },
  {
    call: passwordCall,
    status: 422,
    body: { password: "password1234" },
    holds: { code: "weak_password", detail: [{ loc: ["body", "password"] }] },
  },
  { call: passwordCall, status: 404, given: createEndedCustomer, body: { password } },
  {
    call: passwordCall,
    status: 429,
    key: null,
    send: browser,
    body: { password, current_password: password },
    given: async () => {
      const values = await arrange();
      const body = { password, current_password: "no" };
      await repeated(10, { call: passwordCall, key: null, send: browser, body })(values);
      return values;
    },
    holds: tooMany,
  },
];

describe("sign-in", () => {
  checkStatuses(arrange, rows);
});
