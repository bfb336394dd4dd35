// Names of the actions for which the server demands a recent sign-in.
import { text } from "../text/sign-in.ts";

const { actions } = text;

/** By the start of the path; the first that matches. */
const named: readonly (readonly [call: RegExp, name: string])[] = [
  [/^POST \/v1\/admin\/accounts$/, actions.createAccount],
  [/^PATCH \/v1\/admin\/accounts\//, actions.changeRoles],
  [/^DELETE \/v1\/admin\/accounts\/[^/]+\/factors$/, actions.removeFactors],
  [/^PUT \/v1\/admin\/sign-in-policy$/, actions.changePolicy],
  [/^POST \/v1\/admin\/nodes\/tokens$/, actions.addHosts],
  [/^POST \/v1\/api-tokens$/, actions.createKey],
  [/^PATCH \/v1\/api-tokens\//, actions.changeKey],
  [/^DELETE \/v1\/api-tokens\//, actions.revokeKey],
  [/^POST \/v1\/scoped-jwt$/, actions.createToken],
  [/^POST \/v1\/me\/password$/, actions.setPassword],
  [/^POST \/v1\/me\/recovery-codes$/, actions.createCodes],
  [/^\w+ \/v1\/me\/factors/, actions.changeFactors],
  [/^\w+ \/v1\/me\/identities/, actions.changeProviders],
  [/^DELETE \/v1\/me$/, actions.deleteAccount],
  [/^POST \/v1\/ssh_keys$/, actions.addSshKey],
  [/^\w+ \/v1\/(members|invitations|service-accounts)/, actions.changeMembers],
];

export const actionOf = (method: string, path: string): string => {
  const call = `${method} ${path.replace(/\?.*$/, "")}`;
  return named.find(([pattern]) => pattern.test(call))?.[1] ?? actions.other;
};
