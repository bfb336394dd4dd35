/** Path of the start page, without a trailing slash. */
export const base: string = import.meta.env.BASE_URL.replace(/\/$/, "");
