/** Where a server program comes from. */
export interface ServerSource {
  readonly name: string;
  /** Version to download or build, with its `v`. */
  readonly version: string;
  /** Oldest version on PATH that is accepted. */
  readonly minimum: string;
  /** Environment variable with the path of the program. Its version is not checked. */
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
  /** Path of the program in the tar.gz. Left out: the release is the program itself. */
  readonly member?: string;
}

/** How the program is built when it cannot be downloaded. */
export interface GoBuild {
  /** Folder with the go.mod: its name in deploy/local/servers, or an absolute path. */
  readonly module: string;
  readonly package: string;
  readonly ldflags: string;
  /** Build tags, with commas. Default: none. */
  readonly tags?: string;
  /** Duration of a build on two cores with an empty cache, minutes. Shown to people. */
  readonly minutes: number;
}
