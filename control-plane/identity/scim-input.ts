// What providers send by SCIM 2.0 (RFC 7643, 7644), as Okta and Entra ID write it: everything is checked and bounded, unknown attributes
// are ignored. Pure.
import { scimInvalid } from "./scim-errors.ts";
import type {
  GroupAttribute,
  GroupChange,
  ScimFilter,
  ScimGroupFields,
  ScimPage,
  ScimUserFields,
  UserAttribute,
} from "./scim-store.ts";

type Json = Readonly<Record<string, unknown>>;

const maxOperations = 100;
/** Attributes of all operations of a request. */
const maxAttributes = 200;
const maxMembers = 2_000;
const maxPageSize = 200;
const emailForm = /^[^@\s\0]+@[^@\s\0]+$/;

export function objectOf(value: unknown): Json {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Json;
  throw scimInvalid("invalidSyntax", "The body must be a JSON object.");
}

/** Attribute names ignore case. */
function attribute(of: Json, name: string): unknown {
  if (Object.hasOwn(of, name)) return of[name];
  const key = Object.keys(of).find((one) => one.toLowerCase() === name.toLowerCase());
  return key === undefined ? undefined : of[key];
}

/** Undefined for an absent or null one. */
function textIn(of: Json, name: string, maxLength: number): string | undefined {
  const value = attribute(of, name);
  if (value === undefined || value === null) return undefined;
  if (typeof value !== "string" || value.length > maxLength || value.includes("\0"))
    throw scimInvalid("invalidValue", `${name} must be a text of at most ${maxLength} characters.`);
  return value;
}

function booleanOf(value: unknown): boolean {
  if (typeof value === "boolean") return value;
  // Entra ID sends texts.
  if (typeof value === "string" && /^(true|false)$/i.test(value)) return value.toLowerCase() === "true";
  throw scimInvalid("invalidValue", "active must be true or false.");
}

function emailIn(of: Json): string | undefined {
  const list = attribute(of, "emails");
  if (list === undefined || list === null) return undefined;
  if (!Array.isArray(list) || list.length > 50)
    throw scimInvalid("invalidValue", "emails must be a list of at most 50.");
  const entries = list.map(objectOf);
  const chosen = entries.find((one) => attribute(one, "primary") === true) ?? entries[0];
  return chosen && textIn(chosen, "value", 320);
}

/** Reads a whole user. `isActive` by default. */
export function userIn(body: unknown): ScimUserFields {
  const of = objectOf(body);
  const userName = textIn(of, "userName", 320)?.trim();
  if (!userName) throw scimInvalid("invalidValue", "userName is required.");
  const name = attribute(of, "name");
  const names = name === undefined || name === null ? {} : objectOf(name);
  const active = attribute(of, "active");
  return checkedUser({
    userName,
    externalId: textIn(of, "externalId", 256) ?? null,
    email: emailIn(of) ?? userName,
    givenName: textIn(names, "givenName", 128) ?? "",
    familyName: textIn(names, "familyName", 128) ?? "",
    displayName: textIn(of, "displayName", 256) ?? textIn(names, "formatted", 256) ?? "",
    isActive: active === undefined || active === null ? true : booleanOf(active),
  });
}

function checkedUser(fields: ScimUserFields): ScimUserFields {
  if (!emailForm.test(fields.email))
    throw scimInvalid("invalidValue", "The person needs an e-mail address, in emails or as userName.");
  return fields;
}

interface Operation {
  readonly op: "add" | "replace" | "remove";
  /** Empty: the whole resource. */
  readonly path: string;
  readonly value: unknown;
}

function operationsIn(body: unknown): readonly Operation[] {
  const list = attribute(objectOf(body), "Operations");
  if (!Array.isArray(list) || list.length === 0 || list.length > maxOperations)
    throw scimInvalid("invalidSyntax", `Operations must be a list of 1 to ${maxOperations}.`);
  return list.map((one) => {
    const operation = objectOf(one);
    const op = String(attribute(operation, "op")).toLowerCase();
    if (op !== "add" && op !== "replace" && op !== "remove")
      throw scimInvalid("invalidSyntax", "op must be add, replace or remove.");
    const path = withoutSchema(textIn(operation, "path", 512) ?? "");
    if (op === "remove" && path === "") throw scimInvalid("noTarget", "remove needs a path.");
    return { op, path, value: attribute(operation, "value") };
  });
}

/** Paths may begin with the name of their schema. */
const withoutSchema = (path: string): string =>
  path.replace(/^urn:ietf:params:scim:schemas:core:2\.0:(User|Group):/i, "").trim();

interface AttributeChange {
  readonly operation: Operation;
  readonly path: string;
  readonly value: unknown;
}

/** Changes of single attributes, in order. A value for the whole resource has several; Entra ID writes `name.givenName` as a key. */
function attributesIn(body: unknown): readonly AttributeChange[] {
  const changes = operationsIn(body).flatMap((operation): readonly AttributeChange[] => {
    const { op, path, value } = operation;
    if (path !== "") return [{ operation, path, value: op === "remove" ? null : value }];
    return Object.entries(objectOf(value)).map(([key, one]) => ({ operation, path: withoutSchema(key), value: one }));
  });
  if (changes.length > maxAttributes)
    throw scimInvalid("tooMany", `A request changes at most ${maxAttributes} attributes. Send several.`);
  return changes;
}

export function patchedUser(before: ScimUserFields, body: unknown): ScimUserFields {
  const after = { ...before };
  for (const { path, value } of attributesIn(body)) setUser(after, path, value);
  return checkedUser(after);
}

type Changing<Fields> = { -readonly [Name in keyof Fields]: Fields[Name] };

function setUser(user: Changing<ScimUserFields>, path: string, value: unknown): void {
  const text = (maxLength: number) => textIn({ [path]: value }, path, maxLength);
  const name = path.toLowerCase();
  if (name === "active") user.isActive = value === null ? true : booleanOf(value);
  else if (name === "username") {
    const userName = text(320)?.trim();
    if (!userName) throw scimInvalid("invalidValue", "userName is required.");
    user.userName = userName;
  } else if (name === "externalid") user.externalId = text(256) ?? null;
  else if (name === "displayname") user.displayName = text(256) ?? "";
  else if (name === "name.givenname") user.givenName = text(128) ?? "";
  else if (name === "name.familyname") user.familyName = text(128) ?? "";
  else if (name === "name" && value !== null) {
    const names = objectOf(value);
    user.givenName = textIn(names, "givenName", 128) ?? user.givenName;
    user.familyName = textIn(names, "familyName", 128) ?? user.familyName;
  } else if (name === "emails") user.email = emailIn({ emails: value }) ?? user.email;
  else if (/^emails\[.{1,100}\]\.value$/.test(name) || name === "emails.value") user.email = text(320) ?? user.email;
}

function checkMemberCount(count: number): void {
  if (count > maxMembers) throw scimInvalid("tooMany", `A request names at most ${maxMembers} members. Send several.`);
}

function memberIds(value: unknown): readonly string[] {
  const list = Array.isArray(value) ? value : value === undefined || value === null ? [] : [value];
  checkMemberCount(list.length);
  return list.map((one) => {
    const id = typeof one === "string" ? one : textIn(objectOf(one), "value", 64);
    if (id === undefined) throw scimInvalid("invalidValue", "Each member needs a value.");
    return id;
  });
}

export interface GroupIn extends ScimGroupFields {
  readonly members: readonly string[];
}

export function groupIn(body: unknown): GroupIn {
  const of = objectOf(body);
  const displayName = textIn(of, "displayName", 256)?.trim();
  if (!displayName) throw scimInvalid("invalidValue", "displayName is required.");
  return {
    displayName,
    externalId: textIn(of, "externalId", 256) ?? null,
    members: memberIds(attribute(of, "members")),
  };
}

/** In order. The members of all changes together are bounded. */
export function groupChanges(body: unknown): readonly GroupChange[] {
  const changes = attributesIn(body).map(({ operation, path, value }) => groupChange(operation, path, value));
  const named = changes.flatMap(({ members = {} }) => Object.values(members).flat());
  checkMemberCount(named.length);
  return changes;
}

function groupChange({ op, value: given }: Operation, path: string, value: unknown): GroupChange {
  const name = path.toLowerCase();
  if (name === "displayname") {
    const displayName = textIn({ displayName: value }, "displayName", 256)?.trim();
    if (!displayName) throw scimInvalid("invalidValue", "displayName is required.");
    return { displayName };
  }
  if (name === "externalid") return { externalId: textIn({ externalId: value }, "externalId", 256) ?? null };
  const [, one] = /^members\[\s*value\s+eq\s+"([^"\\]{1,64})"\s*\]$/i.exec(path) ?? [];
  if (one !== undefined) {
    if (op !== "remove") throw scimInvalid("invalidPath", "Members are added by the path members.");
    return { members: { remove: [one] } };
  }
  // Attributes that are not stored.
  if (name !== "members") return {};
  // Without a value all are removed; Entra ID names them in the value.
  if (op === "remove")
    return { members: given === undefined || given === null ? { only: [] } : { remove: memberIds(given) } };
  return { members: op === "replace" ? { only: memberIds(value) } : { add: memberIds(value) } };
}

const userAttributes: Readonly<Record<string, UserAttribute>> = {
  id: "id",
  username: "userName",
  externalid: "externalId",
  emails: "email",
  "emails.value": "email",
  'emails[type eq "work"].value': "email",
};
const groupAttributes: Readonly<Record<string, GroupAttribute>> = {
  id: "id",
  displayname: "displayName",
  externalid: "externalId",
};

export const userFilter = (text: string | undefined) => filterIn(text, userAttributes);
export const groupFilter = (text: string | undefined) => filterIn(text, groupAttributes);

/** `ATTRIBUTE eq "VALUE"`; undefined: none. */
function filterIn<Attribute extends string>(
  text: string | undefined,
  attributes: Readonly<Record<string, Attribute>>,
): ScimFilter<Attribute> | undefined {
  if (text === undefined || text.trim() === "") return undefined;
  const [, path = "", literal = ""] =
    /^(\S{1,100}|emails\[type eq "work"\]\.value) eq ("(?:[^"\\]|\\.){0,512}")$/i.exec(text.trim()) ?? [];
  const name = withoutSchema(path).toLowerCase();
  if (!Object.hasOwn(attributes, name))
    throw scimInvalid(
      "invalidFilter",
      `Filters are ATTRIBUTE eq "VALUE", with ${Object.values(attributes).join(", ")}.`,
    );
  try {
    const value: unknown = JSON.parse(literal);
    if (typeof value === "string" && !value.includes("\0")) return { attribute: attributes[name] as Attribute, value };
  } catch {
    // An invalid escape.
  }
  throw scimInvalid("invalidFilter", "The value of the filter cannot be read.");
}

/** `startIndex` counts from 1; values out of range are moved into it, as the RFC says. */
export function pageIn(startIndex: string | undefined, count: string | undefined): ScimPage {
  const number = (text: string | undefined, fallback: number) => {
    if (text === undefined || text === "") return fallback;
    if (!/^-?\d{1,9}$/.test(text)) throw scimInvalid("invalidValue", "startIndex and count must be whole numbers.");
    return Number(text);
  };
  return {
    offset: Math.max(1, number(startIndex, 1)) - 1,
    limit: Math.min(maxPageSize, Math.max(0, number(count, 100))),
  };
}
