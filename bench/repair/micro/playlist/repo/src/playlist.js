/** A playlist. Tracks have an id, a title, seconds and a number of plays. */

export class Playlist {
  #tracks = [];

  constructor(tracks = []) {
    for (const track of tracks) this.add(track);
  }

  /** Adds a track at the end. Throws when its id is taken already. */
  add(track) {
    if (this.#tracks.some((known) => known.id === track.id)) {
      throw new Error(`track ${track.id} is there already`);
    }
    this.#tracks.push({ plays: 0, ...track });
    return this;
  }

  /** Removes a track; false when there was none. */
  remove(id) {
    const at = this.#tracks.findIndex((track) => track.id === id);
    if (at === -1) return false;
    this.#tracks.splice(at, 1);
    return true;
  }

  get ids() {
    return this.#tracks.map((track) => track.id);
  }

  get seconds() {
    return this.#tracks.reduce((sum, track) => sum + track.seconds, 0);
  }

  /** Ids of the n tracks that were played most, those first; equal ones in the order of the list. */
  top(n = 3) {
    return [...this.#tracks]
      .sort((a, b) => a.plays - b.plays)
      .slice(0, n)
      .map((track) => track.id);
  }

  /** Counts a play. Throws for a track that is not in the list. */
  played(id) {
    const track = this.#tracks.find((known) => known.id === id);
    if (!track) throw new Error(`there is no track ${id}`);
    track.plays += 1;
    return track.plays;
  }
}

/** 3725 seconds are 1:02:05, 65 seconds are 1:05. */
export function clock(seconds) {
  const two = (n) => String(n).padStart(2, "0");
  const hours = Math.floor(seconds / 3600);
  const minutes = Math.floor((seconds % 3600) / 60);
  const rest = two(seconds % 60);
  return hours > 0 ? `${hours}:${two(minutes)}:${rest}` : `${minutes}:${rest}`;
}
