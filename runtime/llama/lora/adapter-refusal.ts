// An adapter that cannot be loaded, as one sentence for whoever asked.
export class AdapterRefusal extends Error {
  constructor(message: string, options: { cause?: unknown } = {}) {
    super(message, options);
    this.name = "AdapterRefusal";
  }
}
