// A control plane has some three hundred routes, and compiling the validators of all of them is half of the processor time of
// its start. Each is compiled with the first request that it looks at instead: a millisecond or two, once.

interface Validator {
  (value: unknown): unknown;
  errors?: unknown;
}

/** What of Ajv is used here. */
interface Compiler {
  compile(schema: object): Validator;
}

/**
 * For `ajv.onCreate` of Fastify. A schema that cannot be compiled fails its first request instead of the start: the contract tests
 * ask every route that has one.
 */
export function compileAtFirstUse(ajv: Compiler): void {
  const compile = ajv.compile.bind(ajv);
  ajv.compile = (schema) => {
    let compiled: Validator | undefined;
    const validate: Validator = (value) => {
      compiled ??= compile(schema);
      const isValid = compiled(value);
      validate.errors = compiled.errors;
      return isValid;
    };
    return validate;
  };
}
