/** Where the page stands, as a path that ends with a slash. The server may be mounted anywhere, and a proxy may stand before it. */
export function baseOf(said: string | null | undefined, document: string): string {
  return new URL(said ?? "./", document).pathname.replace(/[^/]*$/, "");
}

export const base = baseOf(
  globalThis.document?.querySelector<HTMLMetaElement>('meta[name="windlass-base"]')?.content,
  globalThis.document?.baseURI ?? "http://localhost/",
);
