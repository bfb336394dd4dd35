// Ajv's errors in the contract's shape: `detail[]` of {loc, msg, type}, types from a closed list.

/** Error of Ajv with `verbose`. `data` and `parentSchema` never leave this file, because they may contain a prompt. */
export interface SchemaError {
  readonly keyword: string;
  readonly instancePath: string;
  /** Path of the keyword in the schema. It identifies the alternative of a union. */
  readonly schemaPath?: string;
  readonly params: Readonly<Record<string, unknown>>;
  readonly data?: unknown;
  readonly parentSchema?: {
    readonly required?: readonly string[];
    readonly oneOf?: readonly { readonly properties?: Readonly<Record<string, { readonly const?: unknown }>> }[];
  };
}

export interface Detail {
  readonly loc: readonly string[];
  readonly msg: string;
  readonly type: string;
}

export type Place = "body" | "query" | "path" | "header";

export const maxDetails = 20;

/** Returns one detail for each fault, at least one and at most `maxDetails`. */
export function detailOf(errors: readonly SchemaError[], place: Place): readonly Detail[] {
  const found = new Map<string, Detail>();
  for (const fault of faultsOf(errors)) {
    for (const detail of detailsOfFault(fault, place)) {
      const key = JSON.stringify(detail.loc);
      if (!found.has(key)) found.set(key, detail);
      if (found.size === maxDetails) return [...found.values()];
    }
  }
  return found.size > 0 ? [...found.values()] : [{ loc: [place], msg: "Invalid value", type: "value_error" }];
}

const isUnion = ({ keyword }: SchemaError): boolean => keyword === "anyOf" || keyword === "oneOf";

/** Path of the schema that the keyword of the error is part of. */
const schemaOf = ({ schemaPath = "" }: SchemaError): string => schemaPath.slice(0, schemaPath.lastIndexOf("/"));

/**
 * Groups the errors by fault: Ajv reports the errors of all alternatives of a union, and then that of the union. A value of the wrong type
 * also breaks the list of allowed values of the same schema.
 */
function faultsOf(errors: readonly SchemaError[]): readonly (readonly SchemaError[])[] {
  const faults: SchemaError[][] = [];
  for (const error of errors) {
    const alternatives: SchemaError[][] = [];
    if (isUnion(error)) {
      const path = `${error.instancePath}/`;
      const isPart = ([one]: readonly SchemaError[]) => `${one?.instancePath}/`.startsWith(path);
      for (let last = faults.at(-1); last && isPart(last); last = faults.at(-1)) {
        alternatives.push(last);
        faults.pop();
      }
    } else if (error.keyword === "enum") {
      const last = faults.at(-1);
      if (last?.length === 1 && last[0] && isTypeBeside(error, last[0])) {
        alternatives.push(last);
        faults.pop();
      }
    }
    faults.push([...alternatives.reverse().flat(), error]);
  }
  return faults;
}

const isTypeBeside = (error: SchemaError, other: SchemaError): boolean =>
  other.keyword === "type" && other.instancePath === error.instancePath && schemaOf(other) === schemaOf(error);

/** Returns the details of a fault; of a union, all faults of its best alternative, which the caller very likely meant. */
function detailsOfFault(errors: readonly SchemaError[], place: Place): readonly Detail[] {
  const best = specificError(errors) ?? errors[0];
  const union = errors.at(-1);
  if (!best || !union) return [];
  // In a union of literals each one is an alternative; one detail lists them all.
  if (!isUnion(union) || best === union || best.keyword === "const") return detailOfError(best, errors, place);
  if (hasNoType(errors, union)) return [detailOfNoType(errors, union, place)];
  const alternative = alternativeOf(best, union);
  if (alternative === undefined) return detailOfError(best, errors, place);
  const own = errors.filter((one) => one !== union && alternativeOf(one, union) === alternative);
  const details: Detail[] = [];
  for (const fault of faultsOf(own)) {
    details.push(...detailsOfFault(fault, place));
    if (details.length >= maxDetails) break;
  }
  return details;
}

/** Returns the position of the alternative that the error is part of; undefined: unknown. */
function alternativeOf({ schemaPath = "" }: SchemaError, { schemaPath: union = "" }: SchemaError): string | undefined {
  return union !== "" && schemaPath.startsWith(`${union}/`)
    ? schemaPath.slice(union.length + 1).split("/")[0]
    : undefined;
}

/** True when the value of a union has the type of no alternative. */
function hasNoType(errors: readonly SchemaError[], union: SchemaError): boolean {
  const leaves = errors.filter((one) => !isUnion(one));
  const withType = new Set(leaves.filter(({ keyword }) => keyword === "type").map(schemaOf));
  return leaves.every((one) => one.instancePath === union.instancePath && withType.has(schemaOf(one)));
}

/** Returns the detail of a value that has the type of no alternative: the types of all, or the allowed values of those that list them. */
function detailOfNoType(errors: readonly SchemaError[], union: SchemaError, place: Place): Detail {
  const withValues = new Set(errors.filter(({ keyword }) => keyword === "enum").map(schemaOf));
  const all = errors.flatMap((one) => {
    if (one.keyword === "enum") return [described(one, place)];
    if (one.keyword !== "type" || one.params["type"] === "null" || withValues.has(schemaOf(one))) return [];
    return [typed(one.params["type"], one.data, place)];
  });
  const words = [...new Set(all.map(({ msg }) => msg.replace(/^Input should be /, "")))];
  const joint = words.some((one) => one.includes(" or ")) ? ", or " : " or ";
  return { loc: locOf(union, place), msg: `Input should be ${words.join(joint)}`, type: all[0]?.type ?? "value_error" };
}

const locOf = ({ instancePath }: SchemaError, place: Place): string[] => [
  place,
  ...pathOf(instancePath).map((part) => (place === "path" ? published(part) : part)),
];

/** `fault`: the errors that it is the most specific of. */
function detailOfError(error: SchemaError, fault: readonly SchemaError[], place: Place): readonly Detail[] {
  const loc = locOf(error, place);
  if (error.keyword === "const")
    return [{ loc, msg: `Input should be ${listed(choices(fault, error))}`, type: "enum" }];
  if (error.keyword === "additionalProperties")
    return [{ loc: [...loc, String(error.params["additionalProperty"])], ...described(error, place) }];
  if (error.keyword === "discriminator") return [ofTag(error, loc)];
  // Shown to people who choose a password.
  if (error.keyword === "minLength" && loc.at(-1) === "password")
    return [
      { loc, msg: `The password must have at least ${error.params["limit"]} characters.`, type: "string_too_short" },
    ];
  if (error.keyword !== "required") return [{ loc, ...described(error, place) }];
  const data = (typeof error.data === "object" && error.data !== null ? error.data : {}) as object;
  const missing = error.parentSchema?.required?.filter((key) => !(key in data)) ?? [];
  const keys = missing.length > 0 ? missing : [String(error.params["missingProperty"])];
  return keys.map((key) => ({ loc: [...loc, key], msg: "Field required", type: "missing" }));
}

/** Returns the detail of a union whose discriminator field is missing or unknown. */
function ofTag({ params, data, parentSchema }: SchemaError, place: readonly string[]): Detail {
  const tag = String(params["tag"]);
  const loc = [...place, tag];
  const given = (data as Readonly<Record<string, unknown>> | undefined)?.[tag];
  if (given === undefined) return { loc, msg: "Field required", type: "missing" };
  if (typeof given !== "string") return { loc, ...typed("string", given, "body") };
  const kinds = parentSchema?.oneOf?.map(({ properties }) => properties?.[tag]?.const);
  return { loc, msg: `Input should be ${listed(kinds)}`, type: "enum" };
}

/** Returns the allowed values of a union of literals, which fails once for each of them. */
const choices = (errors: readonly SchemaError[], { instancePath }: SchemaError): readonly unknown[] =>
  errors
    .filter((one) => one.keyword === "const" && one.instancePath === instancePath)
    .map((one) => one.params["allowedValue"]);

/** A list that is too long is reported as such, not as having items of a wrong type. */
const weights: Readonly<Record<string, number>> = { type: 0, required: 2, maxItems: 2.5 };

/** Returns the deepest of the failed alternatives; at the same depth, a bound before a type. */
function specificError(errors: readonly SchemaError[]): SchemaError | undefined {
  let best: SchemaError | undefined;
  let bestScore = -1;
  for (const error of errors) {
    if (isUnion(error)) continue;
    const score = pathOf(error.instancePath).length * 2 + (weights[error.keyword] ?? 1);
    if (score > bestScore) {
      best = error;
      bestScore = score;
    }
  }
  return best;
}

/** The router's name for the end of a path is `*`; the published description calls it `model_name` everywhere. */
const published = (parameter: string): string => (parameter === "*" ? "model_name" : parameter);

function pathOf(pointer: string): string[] {
  if (pointer === "") return [];
  return pointer
    .slice(1)
    .split("/")
    .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
}

function described({ keyword, params, data }: SchemaError, place: Place): Omit<Detail, "loc"> {
  const limit = exactly(params["limit"]);
  switch (keyword) {
    case "type":
      return data === undefined && place === "body"
        ? { msg: "Field required", type: "missing" }
        : typed(params["type"], data, place);
    case "minimum":
      return { msg: `Input should be greater than or equal to ${limit}`, type: "greater_than_equal" };
    case "exclusiveMinimum":
      return { msg: `Input should be greater than ${limit}`, type: "greater_than" };
    case "maximum":
      return { msg: `Input should be less than or equal to ${limit}`, type: "less_than_equal" };
    case "exclusiveMaximum":
      return { msg: `Input should be less than ${limit}`, type: "less_than" };
    case "enum":
      return { msg: `Input should be ${listed(params["allowedValues"])}`, type: "enum" };
    case "pattern":
      return {
        msg: `Input should ${wordsOf(String(params["pattern"])) ?? "have another form"}`,
        type: "string_pattern",
      };
    case "minLength":
      return {
        msg: `String should have at least ${limit} ${limit === 1 ? "character" : "characters"}`,
        type: "string_too_short",
      };
    case "maxLength":
      return { msg: `String should have at most ${limit} characters`, type: "string_too_long" };
    case "minItems":
      return { msg: `List should have at least ${limit} ${limit === 1 ? "item" : "items"}`, type: "too_short" };
    case "maxItems":
      return { msg: `List should have at most ${limit} items`, type: "too_long" };
    case "additionalProperties":
      return { msg: "Extra inputs are not permitted", type: "extra_forbidden" };
    default:
      return { msg: "Invalid value", type: "value_error" };
  }
}

/** Prints all digits: a double prints only enough to distinguish it, 18446744073709552000 for 2^64. */
const exactly = (limit: unknown): unknown =>
  Number.isInteger(limit) && !Number.isSafeInteger(limit) ? BigInt(limit as number) : limit;

function typed(wanted: unknown, data: unknown, place: Place): Omit<Detail, "loc"> {
  // A nullable field is described by its type other than null.
  const type = Array.isArray(wanted) ? wanted.find((one) => one !== "null") : String(wanted).split(",")[0];
  const isText = place !== "body";
  switch (type) {
    case "string":
      return { msg: "Input should be a valid string", type: "string_type" };
    case "integer":
      if (isText) return { msg: "Input should be a valid integer", type: "int_parsing" };
      return typeof data === "number"
        ? { msg: "Input should be a valid integer, got a number with a fractional part", type: "int_from_float" }
        : { msg: "Input should be a valid integer", type: "int_type" };
    case "number":
      return { msg: "Input should be a valid number", type: isText ? "float_parsing" : "float_type" };
    case "boolean":
      return { msg: "Input should be a valid boolean", type: isText ? "bool_parsing" : "bool_type" };
    case "array":
      return { msg: "Input should be a valid list", type: "list_type" };
    default:
      return { msg: "Input should be an object", type: "dict_type" };
  }
}

function listed(values: unknown): string {
  // A nullable field is described by its type other than null.
  const texts = (Array.isArray(values) ? values : []).filter((value) => value !== null).map((value) => `'${value}'`);
  return texts.length < 2 ? (texts[0] ?? "another value") : `${texts.slice(0, -1).join(", ")} or ${texts.at(-1)}`;
}

/** Returns the place of a value that Fastify found invalid. */
export function placeOf(context: string | undefined): Place {
  switch (context) {
    case "querystring":
      return "query";
    case "params":
      return "path";
    case "headers":
      return "header";
    default:
      return "body";
  }
}

/** Joins all faults into one sentence. */
export function summaryOf(detail: readonly Detail[]): string {
  return detail.map(({ loc, msg }) => `${loc.slice(1).join(".") || loc[0]}: ${msg}`).join("; ");
}

// Describes the patterns of our schemas in words that continue "Input should", because callers cannot be expected to read regular
// expressions. A test compares this with every pattern of the published description.

const wordsByPattern: Readonly<Record<string, string>> = {
  "^[1-5]([0-9]{2}|xx)$": "be an HTTP status or a class of them, such as 404 or 5xx",
  "^[a-z0-9_]+$": "be the code of an error, such as rate_limited",
  "^[^\\u0000]*$": "hold no NUL character (U+0000)",
  "^[^\\u0000-\\u001f\\u007f]*[^\\s\\u0000-\\u001f\\u007f][^\\u0000-\\u001f\\u007f]*$":
    "hold a character that is not a space, and no control characters",
  "^[^\\u0000-\\u001f\\u007f-\\u009f]*$": "hold no control characters, such as line breaks or tabs",
  "^[^@\\s\\u0000]+@[^@\\s\\u0000]+$": "be an e-mail address, such as ada@example.com",
  "^[a-zA-Z0-9]+(-[a-zA-Z0-9]+)*$": "be letters and digits, with single hyphens between them, such as ada-lovelace",
  "^[ -~]+$": "be printable ASCII characters, such as order-4711",
  "^[!-~]+$": "be printable ASCII characters without spaces",
  "^https?://[!-~]+$": "be an address that begins with http:// or https://, in ASCII, such as https://example.com/back",
  "^(https?://[^\\s\\u0000]+)?$":
    "be an address that begins with http:// or https:// and holds no spaces, such as https://example.com, or nothing",
  "^openid( [!-~]+)*$": "be scopes with spaces between them, openid first, such as openid email",
  "^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)+$":
    "be a domain in lower case, such as example.com",
  "^[a-zA-Z0-9_-]{1,64}$": "be 1 to 64 letters, digits, hyphens or underscores",
  "^[A-Za-z0-9_-]{32}$": "be 32 letters, digits, hyphens or underscores",
  "^[\\w.:+ -]+$": "be letters, digits, spaces and the signs . : + - _, such as text-generation",
  "^[\\w./:-]+$": "be a model's name, such as owner/model",
  "^[\\w.-]*$": "be letters, digits, dots, hyphens and underscores, such as rack-2",
  "^(?!.*(?:^|/)\\.\\.(?:/|$))[A-Za-z0-9][\\w.-]{0,95}/[\\w.-]{1,96}$": "be a repository, such as owner/model",
  "^(?!.*(?:^|/)\\.\\.(?:/|$))[\\w./-]{1,128}$": "be a branch, tag or commit, such as main",
  "^$|^(?!.*(?:^|/)\\.{0,2}(?:/|$))[\\w.][\\w. +@/=,()-]{0,511}$":
    "be a file's path inside the repository, such as onnx/model.onnx, or nothing",
  "^\\d{1,9}$": "be a whole number of at most 9 digits, such as 86400",
  "^\\d{1,18}$": "be a whole number of at most 18 digits, such as 4711",
  "^[1-9]\\d{1,3}x[1-9]\\d{1,3}$": "be width and height in pixels with an x between them, such as 512x512",
  "^[A-Za-z]{2}$": "be a language of two letters (ISO 639-1), such as en",
  "^[dD][aA][tT][aA]:": "be a data: URI with the media itself, such as data:image/png;base64,iVBOR",
  "^([01][0-9]|2[0-3]):[0-5][0-9]$": "be a time of day from 00:00 to 23:59, such as 08:30",
  "^([01][0-9]|2[0-3]):[0-5][0-9]$|^24:00$": "be a time of day from 00:00 to 24:00, such as 18:00",
  "^[1-9]\\d?:[1-9]\\d?$": "be a ratio of two numbers up to 99, such as 16:9",
};

/** Returns undefined for a pattern without words. */
const wordsOf = (pattern: string): string | undefined => wordsByPattern[pattern];
