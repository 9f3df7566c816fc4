/** Where one server comes from. */
export interface ServerSource {
  readonly name: string;
  /** The version that is downloaded or built, with its `v`. */
  readonly version: string;
  /** The oldest version on PATH that will do. */
  readonly minimum: string;
  /** Environment variable with a path that is taken without asking for its version. */
  readonly variable: string;
  readonly versionArgs: readonly string[];
  readonly release: Release;
  readonly build: GoBuild;
}

/** The publisher's own build. `{os}` and `{arch}` stand for Go's names of the platform. */
export interface Release {
  readonly url: string;
  /** The publisher's list of SHA-256 checksums: a bare one, or lines of `<checksum>  <file>`. */
  readonly checksums: string;
  /** Path of the program in the tar.gz; absent when the release is the program itself. */
  readonly member?: string;
}

/** How it is built when it cannot be downloaded. */
export interface GoBuild {
  /** Folder in deploy/local/servers with the go.mod. */
  readonly module: string;
  readonly package: string;
  readonly ldflags: string;
  /** Minutes on two cores with nothing cached, to tell people what to expect. */
  readonly minutes: number;
}
