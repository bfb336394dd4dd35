import { expect, it } from "vitest";
import { actionOf } from "../../../console/domain/guarded-actions.ts";

it.each([
  ["POST", "/v1/admin/accounts", "create an account"],
  ["PATCH", "/v1/admin/accounts/u%3A1", "change the roles of an account"],
  ["DELETE", "/v1/api-tokens/id/key", "revoke a key"],
  ["POST", "/v1/ssh_keys?label=a", "add an SSH key"],
  ["POST", "/v1/admin/identity-providers", "make this change"],
])("names %s %s", (method, path, name) => {
  expect(actionOf(method, path)).toBe(name);
});
