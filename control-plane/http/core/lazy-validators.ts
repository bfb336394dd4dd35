// Compiling the validators of some 300 routes takes half of the processor time of a start. Each is compiled at its first request
// instead, in a millisecond or two.

interface Validator {
  (value: unknown): unknown;
  errors?: unknown;
}

/** The used part of Ajv. */
interface Compiler {
  readonly opts: object;
  readonly formats: object;
  compile(schema: object): Validator;
}

/**
 * For `ajv.onCreate` of Fastify. An invalid schema fails its first request instead of the start; the contract tests call every
 * route that has one. A validator stops at the first fault; a value of at most `maxListedValues` that fails is validated again for
 * all of its faults, so that a large body with a fault in every value costs no more than before.
 */
export function compileAtFirstUse(ajv: Compiler): void {
  const compile = ajv.compile.bind(ajv);
  let listing: Compiler | undefined;
  const listAll = (schema: object): Validator => {
    if (!listing) {
      const Ajv = ajv.constructor as new (options: object) => Compiler;
      listing = new Ajv({ ...ajv.opts, allErrors: true });
      Object.assign(listing.formats, ajv.formats);
    }
    return listing.compile(schema);
  };
  ajv.compile = (schema) => {
    let first: Validator | undefined;
    let all: Validator | undefined;
    const validate: Validator = (value) => {
      first ??= compile(schema);
      const isValid = first(value);
      validate.errors = first.errors;
      if (isValid !== false || !hasFewValues(value)) return isValid;
      all ??= listAll(schema);
      all(value);
      validate.errors = all.errors;
      return false;
    };
    return validate;
  };
}

const maxListedValues = 1000;

function hasFewValues(value: unknown): boolean {
  const values = [value];
  for (const one of values) {
    if (typeof one !== "object" || one === null) continue;
    const members = Object.values(one);
    if (values.length + members.length > maxListedValues) return false;
    values.push(...members);
  }
  return true;
}
